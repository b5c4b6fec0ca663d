"""The epoch inside foreachBatch: what Spark calls for every micro-batch."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import DataFrame

from onceward import crashpoints
from onceward.epoch.contract import EpochContext, Guarantee, TwoPhaseCommitSink
from onceward.epoch.coordinator import Attempted, Voted
from onceward.epoch.ledger import DECIDED, DONE, LEDGER, PREPARED, STARTED, Entry, SinkEntry
from onceward.epoch.outcome import Outcome
from onceward.epoch.recovery import compare_replay, expected_outcomes
from onceward.errors import RowsDropped
from onceward.pipeline.checkpoint import Positions
from onceward.pipeline.enrichment import Enrichment
from onceward.pipeline.opening import FINAL, Opened, now
from onceward.sinks.rows import digest

REMEMBERED: Final = 100  # epochs that a query object shows

log = logging.getLogger("onceward.pipeline")
Divergence = Literal["fail", "warn"]
Transform = Callable[[DataFrame, Mapping[str, DataFrame]], DataFrame]  # of a batch and of what was looked up for it


class Stopping(Exception):
    """The pipeline was asked to stop before this epoch began; the next start runs it."""


@dataclass
class EpochRunner:
    """Carries out epochs for one started pipeline. `transforms`: for each sink, how it wants the rows."""

    opened: Opened
    transforms: Mapping[str, Transform]
    on_divergence: Divergence
    enrichment: Enrichment | None = None
    rows_dropped: Callable[[], int] = lambda: 0  # so far in this epoch, behind the watermark, where that matters

    def __post_init__(self) -> None:
        self.run = self.opened.run
        self.finished: deque[Entry] = deque(maxlen=REMEMBERED)
        self.epochs_committed = 0
        self.rows_committed = 0
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.idle = threading.Event()
        self.idle.set()
        self.run.coordinator.keep_on = self._keep_on
        self.run.coordinator.sleep = self.stopping.wait  # a stop need not wait for a back-off
        if self.enrichment is not None:
            self.enrichment.keep_on = self._keep_on
            self.enrichment.sleep = self.stopping.wait
        self._owner = self.run.owner
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="onceward-ledger")
        self._recording: tuple[Entry, Future[None]] | None = None  # the last entry, on its way to the disk
        self._settings = {name: sink.describe() for name, sink in self.run.sinks.items()}

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """One micro-batch. Whatever is raised here stops the query; it is kept for the user in its own type."""
        if self.stopping.is_set():
            raise Stopping(f"epoch {epoch} is left to the next start")
        self.idle.clear()
        try:
            with self._fenced_first():
                self._run(batch, epoch)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self.idle.set()

    def close(self) -> None:
        """Wait for the ledger's last write."""
        self._await_record()
        self._background.shutdown(wait=True)

    @contextmanager
    def _fenced_first(self) -> Iterator[None]:
        """Of a driver that was overtaken the rest is a consequence: its successor took away what it had staged."""
        try:
            yield
        except Exception:
            with suppress(OSError):  # the home does not tell: then what happened is the news
                self.run.term.require_current()
            raise

    def _run(self, batch: DataFrame, epoch: int) -> None:
        positions = self.opened.checkpoint.positions(epoch)
        context = EpochContext(
            epoch=epoch,
            positions=positions.kafka,
            input_rows=self.opened.checkpoint.input_rows(epoch, positions),
        )
        with self._rows(batch, self._looked_up(batch, epoch, positions)) as rows:
            if epoch <= self.run.recovered.committed:
                self._replay(context, positions, rows)
            elif self._owner.guarantee is Guarantee.AT_MOST_ONCE:
                self._run_at_most_once(context, positions, rows)
            else:
                self._run_once(context, positions, rows)

    def _looked_up(self, batch: DataFrame, epoch: int, positions: Positions) -> Mapping[str, DataFrame]:
        if self.enrichment is None:
            return {}
        return self.enrichment.frames(epoch, positions.texts, batch.sparkSession)

    @contextmanager
    def _rows(self, batch: DataFrame, tables: Mapping[str, DataFrame]) -> Iterator[dict[str, DataFrame]]:
        """Each sink's rows; the batch is computed once, however many look at it."""
        several = len(self.transforms) > 1 or not all(map(_counts_itself, self.run.sinks.values()))
        shared = batch.persist() if several else batch
        try:
            yield {name: transform(shared, tables) for name, transform in self.transforms.items()}
        finally:
            if several:
                shared.unpersist()

    def _run_once(self, context: EpochContext, positions: Positions, rows: Mapping[str, DataFrame]) -> None:
        """The normal way. The offset log is synced while the tasks work; the last ledger entry follows the commits."""
        journal = _EpochJournal(self, context, positions)
        attempted = self.run.coordinator.run(context, rows, journal, digest)
        entry = self._entry(context, positions, attempted, DONE)
        self._recording = entry, self._background.submit(self._record, entry)
        self._finish(entry)

    def _replay(self, context: EpochContext, positions: Positions, rows: Mapping[str, DataFrame]) -> None:
        """The epoch is out: rebuild the state by running it, compare, write nothing."""
        run, pipeline = self.run, self._owner.pipeline
        expected = expected_outcomes(
            context, positions.texts, run.recovered, run.ledger, pipeline=pipeline, sinks=run.sinks
        )
        now = {name: self._digest(context, name, rows[name]) for name in run.sinks}
        crashpoints.reach("replaying", context.epoch)
        diverged = compare_replay(pipeline, context.epoch, expected, now)
        if diverged is not None:
            if self.on_divergence == "fail":
                raise diverged
            log.error("%s", diverged)
        if run.ledger.read(context.epoch) is None:
            parts = {name: Voted(outcome) for name, outcome in expected.items()}
            self._record(self._entry(context, positions, Attempted(parts, 0), DONE))
        log.info("epoch %d was out already: state rebuilt, nothing written", context.epoch)

    def _run_at_most_once(self, context: EpochContext, positions: Positions, rows: Mapping[str, DataFrame]) -> None:
        """Note first, write once, never again: an epoch that may have been written is given up."""
        if self.run.ledger.read(context.epoch) is not None:
            given_up = {name: self._digest(context, name, frame).rows for name, frame in rows.items()}
            log.warning("epoch %d may be out in part: given up (at-most-once), rows %s", context.epoch, given_up)
            return
        self._record(self._entry(context, positions, Attempted({}, 1), STARTED))
        parts: dict[str, Voted] = {}
        for name, sink in self.run.sinks.items():
            sink.begin(context)
            crashpoints.reach("begun", context.epoch)
            try:
                outcome = sink.write(context, rows[name])
            except FINAL:
                raise
            except Exception as error:  # noqa: BLE001 - losing it is what at-most-once means
                log.warning("epoch %d was lost in part (at-most-once), sink %r: %s", context.epoch, name, error)
                outcome = None
            parts[name] = Voted(outcome if outcome is not None else self._digest(context, name, rows[name]))
        crashpoints.reach("written", context.epoch)
        self._require_none_dropped(context.epoch)
        entry = self._entry(context, positions, Attempted(parts, 1), DONE)
        self._record(entry)
        self._finish(entry)

    def _require_none_dropped(self, epoch: int) -> None:
        if dropped := self.rows_dropped():
            staged = self._owner.guarantee is Guarantee.EXACTLY_ONCE
            out = "Nothing of the epoch is out" if staged else f"The rest may be out ({self._owner.guarantee.value})"
            raise RowsDropped(
                f"pipeline {self._owner.pipeline!r}, epoch {epoch}: Spark dropped {dropped} rows (or groups of rows) "
                f"behind the watermark, and on_late_rows='fail' says that none may be. {out}. "
                "The watermark's delay is too short for how far apart in time the records of an epoch and of its "
                "partitions are: widen withWatermark(...) or lower max_records_per_epoch, and start with a new home; "
                "or let this epoch go without them: on_late_rows='drop'."
            )

    def _digest(self, context: EpochContext, name: str, rows: DataFrame) -> Outcome:
        found = self.run.sinks[name].digest(context, rows)
        return found if found is not None else digest(rows)

    def _finish(self, entry: Entry) -> None:
        self.finished.append(entry)
        self.epochs_committed += 1
        self.rows_committed += entry.rows

    def _entry(self, context: EpochContext, positions: Positions, attempted: Attempted, phase: str) -> Entry:
        sinks = {name: self._sink_entry(name, voted) for name, voted in attempted.sinks.items()}
        return Entry(
            pipeline=self._owner.pipeline,
            lineage=self._owner.lineage,
            term=self._owner.term,
            epoch=context.epoch,
            phase=phase,
            positions=positions.texts,
            decider=self.run.coordinator.decider or LEDGER,
            sinks=sinks,
            rows=attempted.rows,
            attempts=attempted.attempts,
            finished_at=now(),
            milliseconds=attempted.milliseconds,
        )

    def _sink_entry(self, name: str, voted: Voted) -> SinkEntry:
        kind, settings = type(self.run.sinks[name]), self._settings[name]
        return SinkEntry.of(
            voted.outcome,
            kind=f"{kind.__module__}:{kind.__qualname__}",
            settings=dict(settings) if settings is not None else None,
            committable=dict(voted.committable),
            milliseconds=voted.milliseconds,
        )

    def _record(self, entry: Entry) -> None:
        self.run.term.require_current()
        self.run.ledger.write(entry)
        crashpoints.reach("recorded", entry.epoch)
        if self.enrichment is not None and entry.phase == DONE:
            self.enrichment.forget(entry.epoch)

    def _await_record(self) -> None:
        """No epoch is decided before its predecessor is in the ledger: a replay of that one needs the entry."""
        if self._recording is not None:
            entry, written = self._recording
            try:
                written.result()
            except OSError as error:
                log.warning("epoch %d: its ledger entry is written once more: %s", entry.epoch, error)
                self._record(entry)
            self._recording = None

    def _keep_on(self) -> None:
        """Between two tries of a commit."""
        self.run.term.require_current()
        if self.stopping.is_set():
            raise Stopping("the pipeline was asked to stop")


class _EpochJournal:
    """What the coordinator writes down about one epoch."""

    def __init__(self, runner: EpochRunner, context: EpochContext, positions: Positions) -> None:
        self._runner, self._context, self._positions = runner, context, positions
        self._synced = runner._background.submit(runner.opened.checkpoint.sync_positions, context.epoch)  # noqa: SLF001

    def ready(self) -> None:
        """The positions and every earlier epoch are durable, and no newer driver has started."""
        self._synced.result()
        self._runner._await_record()  # noqa: SLF001 - one module, two views of an epoch
        self._runner.run.term.require_current()
        self._runner._require_none_dropped(self._context.epoch)  # noqa: SLF001 - as above

    def prepare(self, attempted: Attempted) -> None:
        """The votes, before Kafka is asked."""
        if self._runner.run.owner.guarantee is Guarantee.EXACTLY_ONCE:
            self._runner.run.ledger.write(self._entry(attempted, PREPARED))

    def decide(self, attempted: Attempted) -> None:
        """The ledger's decision. Afterwards once more: is this driver current? Else its successor finishes it."""
        if self._runner.run.owner.guarantee is Guarantee.EXACTLY_ONCE:
            self._runner.run.decisions.decide(self._entry(attempted, DECIDED))
            self._runner.run.term.require_current()

    def _entry(self, attempted: Attempted, phase: str) -> Entry:
        return self._runner._entry(self._context, self._positions, attempted, phase)  # noqa: SLF001


def _counts_itself(sink: TwoPhaseCommitSink) -> bool:
    return type(sink).digest is not TwoPhaseCommitSink.digest
