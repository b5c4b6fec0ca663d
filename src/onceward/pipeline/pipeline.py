"""Pipeline: a named job from sources to sinks, and how it starts."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from onceward.epoch.contract import DecidingSink, Guarantee, TwoPhaseCommitSink
from onceward.epoch.home import Home, require_name
from onceward.errors import ConfigurationError, SinkNotTransactional
from onceward.pipeline.hadoop import open_home
from onceward.pipeline.opening import take_over as take_home_over
from onceward.pipeline.query import Query
from onceward.pipeline.runner import Divergence, EpochRunner, Transform
from onceward.pipeline.session import require_usable
from onceward.pipeline.source import require_replayable

QUICK_LOGS: Final = {
    # Plain rename instead of Hadoop's FileContext, which forks a process each time; only for file: homes, where
    # rename is atomic and the home's lease keeps a second driver out (docs/decisions/0006).
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
ONCE: Final = frozenset({"once", "available-now"})


def _as_is(batch: DataFrame) -> DataFrame:
    return batch


@dataclass(slots=True)
class Pipeline:
    """Sources -> DataFrame -> sinks, exactly once unless said otherwise.

    name: transactional id and consumer group, for ever. home: the pipeline's own directory.
    on_replay_divergence: "fail", or "warn" to go on knowingly when a replay differs from what is out.
    """

    name: str
    home: str | Path
    source: DataFrame
    output_mode: str = "append"
    guarantee: str = Guarantee.EXACTLY_ONCE.value
    on_replay_divergence: Divergence = "fail"
    replayable_sources: Iterable[str] = ()
    sinks: dict[str, TwoPhaseCommitSink] = field(default_factory=dict, init=False)
    _transforms: dict[str, Transform] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        require_name(self.name)
        if self.guarantee not in {known.value for known in Guarantee}:
            known = ", ".join(repr(known.value) for known in Guarantee)
            raise ConfigurationError(f"guarantee {self.guarantee!r} is not known; choose one of {known}")
        if self.output_mode not in {"append", "update", "complete"}:
            raise ConfigurationError(
                f"output_mode {self.output_mode!r} is not known; choose append, update or complete"
            )
        if self.on_replay_divergence not in {"fail", "warn"}:
            raise ConfigurationError("on_replay_divergence is 'fail' or 'warn'")

    def to(self, sink: TwoPhaseCommitSink, rows: Transform | None = None, *, name: str | None = None) -> Self:
        """One more place for the rows; `rows` turns each epoch's DataFrame into the sink's columns.

        All sinks of a pipeline commit together. `name` tells two of a kind apart, for ever: markers carry it.
        """
        if not isinstance(sink, TwoPhaseCommitSink):
            raise SinkNotTransactional(
                f"{type(sink).__name__} does not commit atomically, so exactly-once is missing its second half. "
                "Use one of Onceward's sinks, or write one: a subclass of ow.TwoPhaseCommitSink."
            )
        name = require_name(name or type(sink).__name__.removesuffix("Sink").lower())
        if name in self.sinks and not isinstance(sink, DecidingSink):
            raise ConfigurationError(
                f"pipeline {self.name!r} has a sink {name!r} already; give this one a name of its own: "
                f".to(..., name='{name}-2')"
            )
        if isinstance(sink, DecidingSink):
            self._require_only_decider(sink)
        self.sinks[name] = sink
        self._transforms[name] = rows or _as_is
        return self

    def start(
        self,
        *,
        trigger: str | None = None,
        take_over: bool = False,
        trust_ledger: bool = False,
        report: Callable[[str], None] = lambda _: None,
    ) -> Query:
        """Take the home and the transactional id over, find out what is out, and run.

        trigger: None (as fast as possible), an interval such as "1s" or "500ms", or "once" (all there is, then end).
        """
        guarantee, spark = Guarantee(self.guarantee), self.source.sparkSession
        if not self.sinks:
            raise ConfigurationError(f"pipeline {self.name!r} has no sink; add .to(ow.KafkaSink(...))")
        require_usable(spark)
        if guarantee is Guarantee.EXACTLY_ONCE:
            require_replayable(self.source, self.replayable_sources)
            self._require_both_halves()
        writer = _triggered(self.source.writeStream.queryName(self.name).outputMode(self.output_mode), trigger)
        home = open_home(self.home, spark)
        opened = take_home_over(
            home, self.name, guarantee, self.sinks, at_once=take_over, trust_ledger=trust_ledger, report=report
        )
        try:
            runner = EpochRunner(opened, self._transforms, self.on_replay_divergence)
            query = _start(writer.foreachBatch(runner), spark, home)
        except BaseException:
            opened.close()
            raise
        return Query(self.name, query, runner)

    def _require_both_halves(self) -> None:
        for name, sink in self.sinks.items():
            if not sink.repeatable:
                raise SinkNotTransactional(
                    f"pipeline {self.name!r}: the source can be replayed, but sink {name!r} ({sink!r}) neither commits "
                    "atomically nor ignores repeats, so exactly-once is missing its second half. Use one of Onceward's "
                    "sinks or a subclass of ow.TwoPhaseCommitSink; or, if writing the same epoch twice has the effect "
                    "of writing it once, say so: idempotent=True; or choose guarantee='at-least-once'."
                )

    def _require_only_decider(self, sink: DecidingSink) -> None:
        for other in self.sinks.values():
            if isinstance(other, DecidingSink):
                raise ConfigurationError(
                    f"pipeline {self.name!r} has {other!r} already, and {sink!r} cannot be in the same epoch: a Kafka "
                    "transaction cannot stay prepared, so its commit is the decision for all sinks and comes last, and "
                    "two cannot both be last. One Kafka sink writes to many topics of one cluster (give its rows a "
                    "'topic' column); for a second cluster run a second pipeline that reads the first one's topic."
                )


def _start(writer: DataStreamWriter, spark: SparkSession, home: Home) -> StreamingQuery:
    """Start with quick log writes; the session's own setting is back afterwards, the query keeps its copy."""
    wanted = QUICK_LOGS if home.checkpoint.startswith("file:") else {}
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        return writer.option("checkpointLocation", home.checkpoint).start()
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _triggered(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    if trigger is None:
        return writer
    if trigger in ONCE:
        return writer.trigger(availableNow=True)
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|m)\s*", trigger)
    if not match:
        raise ConfigurationError(f"trigger {trigger!r} is not known; give '1s', '500ms', '2m' or 'once'")
    unit = {"ms": "milliseconds", "s": "seconds", "m": "minutes"}[match[2]]
    return writer.trigger(processingTime=f"{match[1]} {unit}")
