"""Pipeline: a named job from sources to a sink, and how it starts."""

import re
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from onceward import crashpoints
from onceward.epoch import term as terms
from onceward.epoch.contract import Guarantee, Owner, TwoPhaseCommitSink
from onceward.epoch.home import Home, require_name
from onceward.epoch.ledger import Ledger
from onceward.epoch.recovery import recover
from onceward.errors import ConfigurationError, SinkNotTransactional
from onceward.pipeline.checkpoint import Checkpoint
from onceward.pipeline.hadoop import open_home
from onceward.pipeline.lease import LeaseKeeper, is_dead, this_process
from onceward.pipeline.query import Query
from onceward.pipeline.runner import Divergence, EpochRunner
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
    """Sources -> DataFrame -> sink, exactly once unless said otherwise.

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
    _sink: TwoPhaseCommitSink | None = field(default=None, init=False)
    _rows: Callable[[DataFrame], DataFrame] = field(default=_as_is, init=False)

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

    def to(self, sink: TwoPhaseCommitSink, rows: Callable[[DataFrame], DataFrame] | None = None) -> Self:
        """Where the rows go; `rows` turns each epoch's DataFrame into the sink's columns."""
        if self._sink is not None:
            raise ConfigurationError(
                f"pipeline {self.name!r} has a sink already; one Kafka sink writes to many topics: give its rows a "
                "'topic' column"
            )
        if not isinstance(sink, TwoPhaseCommitSink):
            raise SinkNotTransactional(
                f"{type(sink).__name__} does not commit atomically, so exactly-once is missing its second half. "
                "Use ow.KafkaSink."
            )
        self._sink = sink
        self._rows = rows or _as_is
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
        sink, guarantee, spark = self._checked_sink(), Guarantee(self.guarantee), self.source.sparkSession
        require_usable(spark)
        if guarantee is Guarantee.EXACTLY_ONCE:
            require_replayable(self.source, self.replayable_sources)
        writer = _triggered(self.source.writeStream.queryName(self.name).outputMode(self.output_mode), trigger)

        home = open_home(self.home, spark)
        deed = home.open(self.name, guarantee.value, uuid.uuid4().hex)
        term = terms.acquire(
            home.storage,
            lambda number: this_process(self.name, number),
            is_dead=is_dead,
            clock=time.monotonic,
            sleep=time.sleep,
            take_over=take_over,
            report=report,
        )
        lease = LeaseKeeper(term)
        try:
            owner = Owner(pipeline=self.name, lineage=deed.lineage, term=term.number, guarantee=guarantee)
            runner = self._recovered_runner(sink, owner, home, term, trust_ledger=trust_ledger)
            query = _start(writer.foreachBatch(runner), spark, home)
        except BaseException:
            sink.close()
            lease.release()
            raise
        return Query(self.name, query, runner, lease)

    def _recovered_runner(
        self, sink: TwoPhaseCommitSink, owner: Owner, home: Home, term: terms.Term, *, trust_ledger: bool
    ) -> EpochRunner:
        """Fence first, then read the marker: the other way round, an older driver could commit in between."""
        sink.open(owner)
        last = sink.last_commit()
        ledger = Ledger(home.storage, terms.boundaries(home.storage), owner.lineage)
        checkpoint = Checkpoint(home)
        recovered = recover(
            pipeline=self.name,
            lineage=owner.lineage,
            term=owner.term,
            last=last,
            recorded=ledger.last() if owner.guarantee is Guarantee.EXACTLY_ONCE else None,
            pending=checkpoint.planned(),
            trust_ledger=trust_ledger,
        )
        checkpoint.require_intact(recovered.committed)
        if owner.guarantee is Guarantee.EXACTLY_ONCE:
            term.begin(recovered.committed)
        crashpoints.reach("recovered")
        return EpochRunner(
            owner=owner,
            sink=sink,
            rows=self._rows,
            checkpoint=checkpoint,
            ledger=ledger,
            term=term,
            recovered=recovered,
            on_divergence=self.on_replay_divergence,
        )

    def _checked_sink(self) -> TwoPhaseCommitSink:
        if self._sink is None:
            raise ConfigurationError(f"pipeline {self.name!r} has no sink; add .to(ow.KafkaSink(...))")
        return self._sink


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
