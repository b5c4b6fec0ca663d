"""Rows that Spark drops because they are behind the watermark: counted before the epoch is decided.

Spark drops them without a word but a metric. Where no row may fall behind (a watermark that is wide enough by design),
a dropped row is lost data, and the epoch must not go out (`Pipeline(on_late_rows="fail")`).
"""

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

METRIC: Final = "numRowsDroppedByWatermark"


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
