"""The epoch inside foreachBatch: what Spark calls for every micro-batch."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from onceward import crashpoints
from onceward.epoch.contract import EpochContext, Guarantee, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Attempted, run_epoch
from onceward.epoch.ledger import Entry, Ledger, with_outcome
from onceward.epoch.outcome import Outcome
from onceward.epoch.recovery import Recovered, compare_replay, expected_outcome
from onceward.epoch.term import Term
from onceward.errors import (
    CommitUnproven,
    ConfigurationError,
    LedgerCorrupt,
    OncewardError,
    PipelineFenced,
    RecordTooLarge,
    ReplayDiverged,
)
from onceward.pipeline.checkpoint import Checkpoint, Positions

REMEMBERED: Final = 100  # epochs that a query object shows
# Doing these again would give the same: the pipeline stops and says so.
FINAL: Final = (
    AnalysisException,
    CommitUnproven,
    ConfigurationError,
    LedgerCorrupt,
    PipelineFenced,
    RecordTooLarge,
    ReplayDiverged,
)

log = logging.getLogger("onceward.pipeline")
Divergence = Literal["fail", "warn"]


class Stopping(Exception):
    """The pipeline was asked to stop before this epoch began; the next start runs it."""


@dataclass
class EpochRunner:
    """Carries out epochs for one started pipeline."""

    owner: Owner
    sink: TwoPhaseCommitSink
    rows: Callable[[DataFrame], DataFrame]
    checkpoint: Checkpoint
    ledger: Ledger
    term: Term
    recovered: Recovered
    on_divergence: Divergence

    def __post_init__(self) -> None:
        self.finished: deque[Entry] = deque(maxlen=REMEMBERED)
        self.epochs_committed = 0
        self.rows_committed = 0
        self.failure: BaseException | None = None
        self.stopping = threading.Event()
        self.idle = threading.Event()
        self.idle.set()
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="onceward-ledger")
        self._recording: Future[None] | None = None

    def __call__(self, batch: DataFrame, epoch: int) -> None:
        """One micro-batch. Whatever is raised here stops the query; it is kept for the user in its own type."""
        if self.stopping.is_set():
            raise Stopping(f"epoch {epoch} is left to the next start")
        self.idle.clear()
        try:
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

    def _run(self, batch: DataFrame, epoch: int) -> None:
        positions = self.checkpoint.positions(epoch)
        context = EpochContext(
            epoch=epoch,
            positions=positions.kafka,
            input_rows=self.checkpoint.input_rows(epoch, positions),
        )
        rows = self.rows(batch)
        if epoch <= self.recovered.committed:
            self._replay(context, positions, rows)
        elif self.owner.guarantee is Guarantee.AT_MOST_ONCE:
            self._run_at_most_once(context, positions, rows)
        else:
            self._run_once(context, positions, rows)

    def _run_once(self, context: EpochContext, positions: Positions, rows: DataFrame) -> None:
        """The normal way. The offset log is synced while the tasks work; the ledger follows the commit."""
        synced = self._background.submit(self.checkpoint.sync_positions, context.epoch)

        def ready_to_decide() -> None:
            synced.result()
            self._await_record()
            self.term.require_current()

        attempted = run_epoch(
            self.sink,
            context,
            rows,
            require_current=ready_to_decide,
            is_final=lambda error: isinstance(error, FINAL),
            clock=time.monotonic,
            sleep=time.sleep,
        )
        entry = self._entry(context, positions, attempted)
        self._recording = self._background.submit(self._record, entry)
        self._finish(entry)

    def _replay(self, context: EpochContext, positions: Positions, rows: DataFrame) -> None:
        """The epoch is out: rebuild the state by running it, compare, write nothing."""
        expected = expected_outcome(context, positions.texts, self.recovered, self.ledger, self.owner.pipeline)
        outcome = self.sink.digest(context, rows)
        crashpoints.reach("replaying", context.epoch)
        diverged = compare_replay(self.owner.pipeline, context.epoch, expected, outcome)
        if diverged is not None:
            if self.on_divergence == "fail":
                raise diverged
            log.error("%s", diverged)
        if self.ledger.read(context.epoch) is None:
            self._record(self._entry(context, positions, Attempted(expected, 0)))
        log.info("epoch %d was out already: state rebuilt, nothing written", context.epoch)

    def _run_at_most_once(self, context: EpochContext, positions: Positions, rows: DataFrame) -> None:
        """Note first, write once, never again: an epoch that may have been written is given up."""
        before = self.ledger.read(context.epoch)
        if before is not None:
            outcome = self.sink.digest(context, rows)
            log.warning("epoch %d may be out in part: given up (at-most-once), %d rows", context.epoch, outcome.rows)
            return
        self._record(self._entry(context, positions, Attempted(Outcome(), 1), phase="started"))
        self.sink.begin(context)
        crashpoints.reach("begun", context.epoch)
        try:
            outcome = self.sink.write(context, rows, attempt=1)
        except FINAL:
            raise
        except Exception as error:  # noqa: BLE001 - losing it is what at-most-once means
            log.warning("epoch %d was lost in part (at-most-once): %s", context.epoch, error)
            outcome = self.sink.digest(context, rows)
        crashpoints.reach("written", context.epoch)
        entry = self._entry(context, positions, Attempted(outcome, 1))
        self._record(entry)
        self._finish(entry)

    def _finish(self, entry: Entry) -> None:
        self.finished.append(entry)
        self.epochs_committed += 1
        self.rows_committed += entry.rows

    def _entry(self, context: EpochContext, positions: Positions, attempted: Attempted, phase: str = "done") -> Entry:
        entry = Entry(
            pipeline=self.owner.pipeline,
            lineage=self.owner.lineage,
            term=self.owner.term,
            epoch=context.epoch,
            phase=phase,
            positions=positions.texts,
            attempts=attempted.attempts,
            finished_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            milliseconds=attempted.milliseconds,
        )
        return with_outcome(entry, attempted.outcome)

    def _record(self, entry: Entry) -> None:
        self.term.require_current()
        self.ledger.write(entry)
        crashpoints.reach("recorded", entry.epoch)

    def _await_record(self) -> None:
        """No epoch is decided before its predecessor is in the ledger: a replay of that one needs the entry."""
        if self._recording is not None:
            self._recording.result()
            self._recording = None


def cause_of(failure: BaseException | None, fallback: BaseException) -> BaseException:
    """Our own error rather than Spark's wrapping of it."""
    return failure if isinstance(failure, OncewardError) else fallback
