"""Shaping the rows of a lone Kafka sink ahead: once, in the query that Spark plans anyway, and not in each batch.

A batch that is shaped when it comes is a second query: parsed, analysed, optimised and compiled in each epoch, which is
a third of a small epoch's time. A sink that takes the source's rows as they are (`to(sink)` without `rows=`) needs
none, if nothing else looks at the batch. The query must be a plain map of records: then an epoch has no more rows than
records, and the driver collects no more than it expects (docs/decisions/0022).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame

from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.pipeline.batch import Shape
from onceward.pipeline.copies_of_records import copied
from onceward.sinks.kafka import KafkaSink
from onceward.sinks.kafka.copying import Copied, Origin
from onceward.sinks.kafka.rows import Shaped

# What gives at most one row for each of its child's. Python functions of single rows are expressions of a Project.
PLAIN: Final = frozenset({"Project", "Filter", "SubqueryAlias", "StreamingRelationV2"})


@dataclass(frozen=True, slots=True)
class Ahead:
    """The query that gives one sink's own columns, and what its batches look like."""

    sink: str
    source: DataFrame
    shape: Shaped
    copied: Copied | None  # where its rows are records as they are

    def transforms(self, counted: Callable[[int], object]) -> dict[str, Shape]:
        """Nothing is left to be done to a batch. counted: told how many records were read past Spark."""
        origin = Origin(self.copied, counted) if self.copied is not None else None
        return {self.sink: lambda batch, _: self.shape.batch(batch, origin)}


def shaped_ahead(
    source: DataFrame, sinks: Mapping[str, TwoPhaseCommitSink], as_they_are: Collection[str]
) -> Ahead | None:
    """None where each batch is to be shaped when it comes.

    as_they_are: the sinks that were given no `rows=`.
    """
    if len(sinks) != 1:
        return None
    name, sink = next(iter(sinks.items()))
    if name not in as_they_are or not isinstance(sink, KafkaSink) or not _is_plain(_plan(source)):
        return None
    frame, shape = sink.shaped(source)
    return Ahead(name, frame, shape, copied(source, shape.columns, sink.cluster))


def _plan(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark shows no plans


def _is_plain(plan: Any) -> bool:
    kind = str(plan.getClass().getSimpleName())
    children = plan.children()
    if kind not in PLAIN or children.size() > 1:
        return False
    if children.size() == 0:
        return str(plan.sourceName()).lower() == "kafka"
    return _is_plain(children.apply(0))
