"""What Spark counts in an epoch: rows that it read, and rows that it dropped because they are behind the watermark.

Spark drops them without a word but a metric. Where no row may fall behind (a watermark that is wide enough by design),
a dropped row is lost data: they are counted before the epoch is decided (`Pipeline(on_late_rows="fail")`).
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql.streaming.query import StreamingQuery

METRIC: Final = "numRowsDroppedByWatermark"
READ: Final = "numOutputRows"


def rows_dropped(query: StreamingQuery) -> int:
    """In the epoch that the query is in, by its stateful operators, over every run of the epoch's plan so far."""
    execution = query._jsq.streamingQuery().lastExecution()  # noqa: SLF001 - no public way
    return sum(_dropped(node) for node in _nodes(execution.executedPlan()))


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    children = plan.children()
    for index in range(children.size()):
        yield from _nodes(children.apply(index))


def _dropped(node: Any) -> int:
    metric = node.metrics().get(METRIC)
    return int(metric.get().value()) if metric.isDefined() else 0


def add_rows_read(query: StreamingQuery, rows: int) -> None:
    """Rows of the epoch that the query is in, read past Spark: they count in its progress, and below, as its own do."""
    with suppress(Py4JError):  # a number for people
        (leaf,) = _leaves(query)
        leaf.metrics().get(READ).get().add(rows)


def rows_read(query: StreamingQuery) -> int | None:
    """From its sources, in the epoch that the query is in, over every run of the epoch's plan so far.

    Only leaves of the plan are asked: a whole walk takes as long as a small commit.
    """
    try:
        counts = [leaf.metrics().get(READ) for leaf in _leaves(query)]
        return sum(int(it.get().value()) for it in counts if it.isDefined()) if counts else None
    except Py4JError:  # a number for people: an epoch does not fail for it
        return None


def _leaves(query: StreamingQuery) -> list[Any]:
    leaves = query._jsq.streamingQuery().lastExecution().executedPlan().collectLeaves()  # noqa: SLF001 - no public way
    return [leaves.apply(index) for index in range(leaves.size())]
