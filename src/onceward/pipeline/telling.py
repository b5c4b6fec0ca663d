"""Who looks on while a pipeline runs: metrics, the log, traces, lineage; and what they learn of its start."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from pyspark.sql import DataFrame

from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.epoch.entries import kind_of
from onceward.epoch.home import is_in_memory
from onceward.epoch.ledger import Entry
from onceward.epoch.observing import Observer, Onlookers, blame
from onceward.epoch.runner import EpochRunner
from onceward.epoch.starting import Opened
from onceward.epoch.storage import LocalStorage
from onceward.errors import OncewardError
from onceward.events import of_pipeline
from onceward.pipeline.source import sources
from onceward.pipeline.source_watch import SourceWatch
from onceward.sinks.kafka import KafkaSink
from onceward.telemetry import lineage, metrics
from onceward.telemetry.activity import SinkActivity
from onceward.telemetry.activity_writer import ActivityWriter, Now
from onceward.telemetry.beside import Beside
from onceward.telemetry.lineage import Begun
from onceward.telemetry.logs import Logged
from onceward.telemetry.traces import tracing
from onceward.watching.sight import Sight

TOLD: Final = frozenset({"kafka.bootstrap.servers", "subscribe", "path"})  # of a source's options; others have secrets

P = ParamSpec("P")
T = TypeVar("T")


class Startable(Protocol):
    """A pipeline."""

    name: str
    sinks: dict[str, TwoPhaseCommitSink]


S = TypeVar("S", bound=Startable)


def observed(start: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """A start is seen from its beginning: by metrics, and in the log under the pipeline's name."""

    @wraps(start)
    def starting(pipeline: S, /, *args: P.args, **options: P.kwargs) -> T:
        with of_pipeline(pipeline.name), _measured(pipeline):
            return start(pipeline, *args, **options)

    return starting


@contextmanager
def _measured(pipeline: Startable) -> Iterator[None]:
    metering = metrics.metering(pipeline.name)
    if metering is not None:
        metering.begin(pipeline.sinks)
    try:
        yield
    except BaseException as error:
        if metering is not None:
            metering.not_started(error)
        raise


class Telling:
    """One start's onlookers. `openlineage`: a file for OpenLineage's events, else what the environment says."""

    def __init__(self, source: DataFrame, opened: Opened, openlineage: str | Path | None) -> None:
        pipeline = opened.taken.owner.pipeline
        self._last = _last_entry(opened)
        self._looked = False
        self._metering = metrics.metering(pipeline)
        self._begun = self._begins(source, opened) if openlineage is not None or lineage.is_asked_for() else None
        self._activity = _activity(opened)
        traces = tracing()
        looking: tuple[Observer | None, ...] = (
            self._metering,
            Logged(pipeline),
            Beside(traces) if traces is not None else None,
            lineage.observer(self._begun, openlineage) if self._begun is not None else None,
            self._activity,
            _source_watch(source, opened),
        )
        self.observer = Onlookers([it for it in looking if it is not None])

    def look_at(self, rows: Mapping[str, DataFrame]) -> None:
        """Each sink's columns, of the first epoch; only where somebody is told."""
        if self._begun is None or self._looked:
            return
        self._looked = True
        try:
            for name, frame in rows.items():
                self._begun.schemas[name] = [(it.name, it.dataType.simpleString()) for it in frame.schema.fields]
        except Exception as error:  # noqa: BLE001 - the epoch finds out by itself what is wrong with its rows
            blame("OpenLineage", error)

    def runs(self, look: Callable[[], Sight], runner: EpochRunner) -> None:
        """The query is there."""
        if self._activity is not None:
            self._activity.runs(look, lambda: _moment(runner))
        if self._metering is not None:
            self._metering.runs(look, self._last)
        self.observer.started()

    def _begins(self, source: DataFrame, opened: Opened) -> Begun:
        owner = opened.taken.owner
        read: list[tuple[str, dict[str, str]]] = []
        for name, options in sources(source):
            told = name, {key: value for key, value in options.items() if key in TOLD}
            if told not in read:  # as Spark numbers them: equal ones once
                read.append(told)
        return Begun(
            pipeline=owner.pipeline,
            guarantee=owner.guarantee.value,
            lineage=owner.lineage,
            term=owner.term,
            sources=read,
            sinks={name: (kind_of(sink), _settings(sink)) for name, sink in opened.taken.sinks.items()},
            positions=self._last.positions if self._last is not None else (),
        )


def _moment(runner: EpochRunner) -> Now:
    coordinator, running = runner.taken.coordinator, runner.running
    waiting = coordinator.patience.shown if coordinator.patience is not None else None
    return Now(
        running=running,
        replaying=running is not None and running <= runner.taken.recovered.committed,
        course=coordinator.course,
        waits_for=f"{waiting.what}: {waiting.reason}" if waiting is not None else "",
        stopping=runner.stop.is_set(),
        epochs_committed=runner.epochs_committed,
        rows_read=runner.rows_read,
        rows_written=tuple(runner.rows_written.items()),
    )


def _source_watch(source: DataFrame, opened: Opened) -> SourceWatch | None:
    patience = opened.taken.coordinator.patience
    if patience is None:
        return None
    servers = {options.get("kafka.bootstrap.servers", "") for name, options in sources(source) if name == "kafka"}
    return SourceWatch(opened.taken.owner.pipeline, sorted(servers), patience)


def _activity(opened: Opened) -> ActivityWriter | None:
    """Of a home on a local path that outlives this process; nobody else could read it."""
    storage, owner = opened.whole.storage, opened.taken.owner
    if not isinstance(storage, LocalStorage) or is_in_memory(opened.whole.location):
        return None
    decider, holder = opened.taken.coordinator.decider, opened.taken.term.holder
    try:
        return ActivityWriter(
            storage.root,
            pipeline=owner.pipeline,
            term=owner.term,
            pid=holder.pid,
            host=holder.host,
            sinks=[
                SinkActivity(name=name, kind=kind_of(sink), decides=name == decider)
                for name, sink in opened.taken.coordinator.sinks.items()
            ],
            clock=time.monotonic,
        )
    except OSError as error:
        blame("What the driver does, for `onceward ui`,", error)
        return None


def _last_entry(opened: Opened) -> Entry | None:
    with suppress(OncewardError, OSError):  # a damaged one is somebody else's to tell
        return opened.taken.ledger.last()
    return None


def _settings(sink: TwoPhaseCommitSink) -> dict[str, Any]:
    """Where it writes, also of a sink that does not describe itself because it has secrets."""
    if isinstance(sink, KafkaSink):
        return {"bootstrap": sink.cluster.bootstrap, "topic": sink.topic}
    return dict(sink.describe() or {"table": getattr(sink, "table", None)})
