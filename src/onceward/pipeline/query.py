"""A running pipeline: Spark's query with epochs, a stop that finishes the running epoch, and our own errors."""

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, cast

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from onceward.epoch.ledger import DONE
from onceward.epoch.runner import EpochRunner, Stopping
from onceward.epoch.starting import Opened
from onceward.epoch.stop_request import StopRequest
from onceward.errors import HomeMismatch, OncewardError, PipelineFenced
from onceward.events import logger
from onceward.pipeline.explaining import explained
from onceward.pipeline.lost_input import input_lost
from onceward.pipeline.opening import now
from onceward.pipeline.printing import Epochs, as_html, counted_as
from onceward.savepoint.creating import create
from onceward.telemetry.metrics import of_pipeline
from onceward.telemetry.outward import waiting_outward
from onceward.watching.sight import Sight

if TYPE_CHECKING:
    from onceward.pipeline.lease import LeaseKeeper
    from onceward.telemetry.prometheus import Metrics

EPOCH_END_S: Final = 60.0  # an epoch whose query has ended finds that out with its next request
COMMIT_LOG_S: Final = 10.0  # Spark writes its commit log within milliseconds after the epoch
POLL_S: Final = 0.02
# What Spark calls a log entry that somebody else has written: one that was there, one that came while it wrote its own
# (a condition without a name, so it is known by its text).
CONCURRENT: Final = ("CONCURRENT_STREAM_LOG_UPDATE", "Multiple streaming queries are concurrently using")


log = logger("onceward.pipeline")


class Query:
    """What `Pipeline.start` returns."""

    def __init__(
        self,
        name: str,
        spark_query: StreamingQuery,
        runner: EpochRunner,
        opened: Opened,
        ended: Callable[[Opened, EpochRunner, BaseException | None, bool], None] = lambda *_: None,
    ) -> None:
        self.name = name
        self.spark_query = spark_query
        self._runner = runner
        self._opened = opened
        self._ended = ended  # told once, when the home was let go of; and whether a savepoint is to be made of it
        self._saves = False
        self._fenced: PipelineFenced | None = None
        self._closing = threading.Lock()
        self._closed = False
        self._alive = True  # when the lease's thread last looked: who prints a query does not ask Spark
        self._stop = cast("threading.Event", opened.stop)
        cast("LeaseKeeper", opened.lease).keep_while(
            self._look,
            overtaken=self._overtaken,
            asked_to_stop=self._asked_to_stop,
            beside=self._runner.keep_marker_alive,
        )

    def __repr__(self) -> str:
        return f"Query({self.name!r}: {', '.join(self._told())})"

    def _repr_html_(self) -> str:
        return as_html(f"Query {self.name}", self._told())

    def _told(self) -> list[str]:
        """What is known here; Spark is not asked, which may be gone."""
        done = self._runner.finished
        last = [f"last epoch {done[-1].epoch} at {done[-1].finished_at[:19].replace('T', ' ')}"] if done else []
        epochs, rows = counted_as(self.epochs_committed, "epoch"), counted_as(self.rows_read, "row")
        return [self._state(), f"{epochs} committed and {rows} read since its start", *last]

    def _state(self) -> str:
        failure = self._fenced or self._runner.failure
        if failure is not None and not isinstance(failure, Stopping):
            return f"failed ({type(failure).__name__})"
        if self._closed or not self._alive:
            return "ended"
        return "stopping" if self._stop.is_set() else "running"

    def _look(self) -> bool:
        self._alive = self.is_active
        return self._alive

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def is_active(self) -> bool:
        """Whether Spark still runs it."""
        return bool(self.spark_query.isActive)

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.spark_query.status)

    @property
    def last_progress(self) -> Any:
        """Spark's progress of the last epoch."""
        return self.spark_query.lastProgress

    @property
    def epochs(self) -> Epochs:
        """The last epochs that this driver committed, oldest first; printed as a table."""
        return Epochs(self._runner.finished)

    @property
    def epochs_committed(self) -> int:
        """How many epochs this driver has committed."""
        return self._runner.epochs_committed

    @property
    def rows_read(self) -> int:
        """How many rows this driver has read in committed epochs, each counted once."""
        return self._runner.rows_read

    @property
    def rows_written(self) -> dict[str, int]:
        """How many rows this driver has committed to each sink."""
        return dict(self._runner.rows_written)

    @property
    def waited_for(self) -> str:
        """What a stop would have to wait for now, in words; known without asking Spark."""
        running, coordinator = self._runner.running, self._runner.taken.coordinator
        waiting = coordinator.patience.shown if coordinator.patience is not None else None
        if waiting is not None:
            return waiting_outward(waiting.said(time.monotonic()))
        return f"epoch {running}: {coordinator.doing or 'being planned'}" if running is not None else "Spark"

    def sight(self) -> Sight:
        """The pipeline as of now, for those who look on."""
        runner, coordinator, active = self._runner, self._runner.taken.coordinator, self.is_active
        waiting = coordinator.patience.shown if coordinator.patience is not None else None
        failure, course = None if active else self.exception(), coordinator.course
        reported = self.spark_query.lastProgress
        return Sight(
            pipeline=self.name,
            guarantee=runner.taken.owner.guarantee.value,
            at=time.monotonic(),
            active=active,
            stopping=self._stop.is_set(),
            failure=_told(failure) if failure is not None else "",
            running=runner.running,
            doing=coordinator.doing,
            waiting=waiting.said(time.monotonic()) if waiting is not None else "",
            waiting_for=waiting.subject if waiting is not None else "",
            waiting_s=time.monotonic() - waiting.since if waiting is not None else 0.0,
            in_doubt=course.epoch if course is not None and course.in_doubt else None,
            fenced=isinstance(failure, PipelineFenced),
            epochs=tuple(runner.finished),
            epochs_committed=runner.epochs_committed,
            rows_read=runner.rows_read,
            rows_written=dict(runner.rows_written),
            progress=json.loads(reported.json) if reported is not None else {},
        )

    def metrics(self) -> "Metrics":
        """Prometheus' metrics of this pipeline, since the process began; they need the extra `onceward[metrics]`.

        Print it for Prometheus' text; ask for one with `value("onceward_rows_written_total", sink="kafka")`; serve
        them yourself from its `registry`.
        """
        return of_pipeline(self.name)

    def exception(self) -> BaseException | None:
        """Why the pipeline stopped, if it failed: our own error where there is one."""
        failure, failed = self._runner.failure, self.spark_query.exception()
        if isinstance(failure, OncewardError):
            return failure  # rather than Spark's wrapping of it
        if self._fenced is not None:
            return self._fenced
        if failed is None or isinstance(failure, Stopping) or self._was_stopped(failed):
            return None
        return self._overtaken_meanwhile() or self._shared_checkpoint(failed) or self._in_our_words(failed)

    def _in_our_words(self, failed: BaseException) -> BaseException:
        """What an epoch raised, or else what Spark ended with."""
        told = self._runner.failure or failed
        ours = input_lost(told) or explained(told, [self._opened.home.location])
        if ours is None:
            return failed
        ours.__cause__ = told
        return ours

    def _shared_checkpoint(self, failed: BaseException) -> HomeMismatch | None:
        """A folder belongs to one term, so whoever else writes into it is no driver of ours."""
        if not any(told in str(failed) for told in CONCURRENT):
            return None
        return HomeMismatch(
            f"another Spark query writes into {self._runner.taken.checkpoint.location}, which belongs to pipeline "
            f"{self.name!r} alone. Nothing of the unfinished epoch is visible. Stop that query, then start again "
            f"({str(failed).splitlines()[0]})"
        )

    def _overtaken_meanwhile(self) -> PipelineFenced | None:
        """Whatever Spark has stumbled over: an overtaken driver's folder is gone, and that it was overtaken is news."""
        try:
            self._runner.taken.term.require_current()
        except PipelineFenced as fenced:
            return fenced
        except OSError:
            return None  # the home does not tell: then what happened is the news
        return None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Until the pipeline ends, or `timeout_s` have passed (False then). A failure is raised."""
        try:
            if timeout_s is None:
                self.spark_query.awaitTermination()
            elif not self.spark_query.awaitTermination(timeout_s):  # type: ignore[arg-type] # it takes fractions
                return False
        except StreamingQueryException:
            pass  # told below, in its own type
        self._close()
        failure = self.exception()
        if failure is not None:
            raise failure
        return True

    def stop(self) -> None:
        """Finish the running epoch, then stop. Harmless when stopped already; a failure is raised."""
        self._stop.set()
        if self.is_active:
            self._runner.idle.wait()
            with suppress(Exception):  # told when it is closed; the lease goes with the query, so record before that
                self._runner.await_record()
            self._await_commit_log()
            self.spark_query.stop()
        self._close()
        failure = self.exception()
        if failure is not None:
            raise failure

    def savepoint(
        self,
        to: str | Path | None = None,
        name: str | None = None,
        *,
        stop: bool = False,
        report: Callable[[str], None] = lambda _: None,
    ) -> Path | str:
        """Save the newest finished epoch, while epochs go on; the savepoint's directory, in HDFS its URI.

        to: a local directory that is not there yet. name: among the home's own savepoints, HOME/savepoints/NAME.
        stop: finish the running epoch and stop first, so that nothing follows it. The checkpoint is kept then.
        """
        if stop:
            self._saves = True
            self.stop()
        self._await_finished()
        place = create(self._opened.whole, to=to, name=name, now=now, report=report)
        return place.location if "://" in place.location else Path(place.location)

    def process_all_available(self) -> None:
        """Until everything that is there now has been committed; for tests and notebooks."""
        try:
            self.spark_query.processAllAvailable()
        except StreamingQueryException:
            self.wait()

    def _overtaken(self, fenced: PipelineFenced) -> None:
        """Stop at once, also while idle: Spark plans its next epoch before it asks anybody."""
        self._fenced = fenced
        self._stop.set()
        self.spark_query.stop()

    def _asked_to_stop(self, request: StopRequest) -> None:
        """From the lease's thread, which has to go on: an epoch may be long."""
        self._saves = True
        log.info(
            "pipeline %r was asked to stop by %s: finishing the running epoch", self.name, request.by,
            extra={"event": "stop_requested", "pipeline": self.name, "by": request.by},
        )  # fmt: skip
        threading.Thread(target=self._stop_as_asked, name=f"onceward-stop-{self.name}", daemon=True).start()

    def _stop_as_asked(self) -> None:
        try:
            self.stop()
        except Exception as error:  # noqa: BLE001 - whoever waits for the query is told the same
            log.warning(
                "pipeline %r was asked to stop, and failed: %s", self.name, error,
                extra={"event": "stop_failed", "pipeline": self.name, "reason": str(error)},
            )  # fmt: skip

    def _was_stopped(self, failed: BaseException) -> bool:
        return self._stop.is_set() and Stopping.__name__ in str(failed)

    def _await_commit_log(self) -> None:
        """Let Spark note the epoch as done, so that the next start need not replay it."""
        done = self._runner.finished
        deadline = time.monotonic() + COMMIT_LOG_S
        while done and self.is_active and not self._has_noted(done[-1].epoch):
            if time.monotonic() > deadline:
                return  # the next start replays that epoch and writes nothing
            time.sleep(POLL_S)

    def _has_noted(self, epoch: int) -> bool:
        """A disk that does not tell now is asked again: a stop, which is asked for once, must not end by that."""
        try:
            return self._runner.taken.checkpoint.finished(epoch)
        except OSError:
            return False

    def _await_finished(self) -> None:
        """The newest epoch that this driver committed is in the ledger and in Spark's log: a savepoint has it then."""
        done, taken = self._runner.finished, self._runner.taken
        newest = done[-1].epoch if done else None
        deadline = time.monotonic() + COMMIT_LOG_S
        while newest is not None and self.is_active and time.monotonic() < deadline:  # else an older one is saved
            entry = taken.ledger.read(newest)
            if entry is not None and entry.phase == DONE and taken.checkpoint.finished(newest):
                return
            time.sleep(POLL_S)

    def _close(self) -> None:
        """Connections and lease go even if the ledger's last write failed; that failure is raised."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            # Spark's stop does not end a callback: an epoch of a driver that was overtaken still uses the connections.
            if not self._runner.idle.wait(EPOCH_END_S):
                self._tell_hanging()
            try:
                self._runner.close()
                failure = self.exception()
            finally:
                self._opened.close()
                self._tell_end()
            self._ended(self._opened, self._runner, failure, self._saves)

    def _tell_hanging(self) -> None:
        epoch = self._runner.running
        log.warning(
            "pipeline %r has ended, and its epoch %s has not within %.0f s (%s): its connections are closed now. "
            "Whatever it still does, the next start finds out what is committed, and finishes or redoes the epoch.",
            self.name, epoch, EPOCH_END_S, self.waited_for,
            extra={"event": "epoch_not_ended", "pipeline": self.name, "epoch": epoch, "seconds": EPOCH_END_S},
        )  # fmt: skip

    def _tell_end(self) -> None:
        failure = self._runner.failure
        with suppress(Exception):  # Spark may be gone
            failure = self.exception()
        self._runner.observer.ended(failure)


def _told(failure: BaseException) -> str:
    """Of an error that is none of ours its class says more than its text."""
    return str(failure) if isinstance(failure, OncewardError) else f"{type(failure).__name__}: {failure}"
