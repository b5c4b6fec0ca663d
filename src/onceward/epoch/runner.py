"""The life of an epoch from the engine's call to the ledger's last entry, without an engine.

`pipeline/` calls it inside foreachBatch, `proof/simulation/` in a seeded world; what differs is behind `ports.py`.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from onceward import crashpoints
from onceward.epoch.checkpoint import Positions, kafka_positions
from onceward.epoch.contract import DecidingSink, EpochContext, Guarantee, LastCommit
from onceward.epoch.coordinator import Attempted, Voted
from onceward.epoch.entries import EntryMaker
from onceward.epoch.expected import NEVER, to_record
from onceward.epoch.journal import Journal
from onceward.epoch.ledger import DONE, STARTED, Entry
from onceward.epoch.observing import Course, Observer
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.epoch.patience import of_sink
from onceward.epoch.plans import require_continuity
from onceward.epoch.ports import Background, Batch, Pending, Stop
from onceward.epoch.recovery import compare_replay, expected_outcomes
from onceward.epoch.takeover import TakenOver
from onceward.epoch.term import fenced_first
from onceward.errors import FINAL, CommitUnproven, RowsDropped
from onceward.events import logger, of_pipeline

REMEMBERED: Final = 100  # epochs that a query object shows
KEEP_ALIVE_S: Final = (
    3600.0  # an idle pipeline writes its marker again; Kafka forgets it after offsets.retention.minutes
)

log = logger("onceward.epoch")
Divergence = Literal["fail", "warn"]


class Stopping(Exception):
    """The pipeline was asked to stop before this epoch began, or between two tries; the next start goes on."""


@dataclass
class EpochRunner:
    """Carries out epochs for one started pipeline. `recorded` is told each epoch that the ledger has as done."""

    taken: TakenOver
    background: Background
    stop: Stop
    clock: Callable[[], float]
    now: Callable[[], str]  # the time of day, for people
    on_divergence: Divergence = "fail"
    recorded: Callable[[Entry], None] = lambda _: None
    keep_alive_s: float = KEEP_ALIVE_S
    observer: Observer = field(default_factory=Observer)
    finished: deque[Entry] = field(default_factory=lambda: deque(maxlen=REMEMBERED), init=False)
    epochs_committed: int = field(default=0, init=False)
    rows_read: int = field(default=0, init=False)  # of committed epochs, each row once
    rows_written: Counter[str] = field(default_factory=Counter, init=False)  # of committed epochs, by sink
    running: int | None = field(default=None, init=False)  # the epoch that is under way
    failure: BaseException | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        taken = self.taken
        taken.coordinator.observer = self.observer
        self.idle = threading.Event()
        self.idle.set()
        self.entries = EntryMaker(taken.owner, taken.sinks, taken.coordinator.decider, self.now)
        self._last = taken.last  # the deciding sink's last commit, to write its marker again
        self._at_work = threading.Lock()  # an epoch, or the marker's renewal: both use the sinks' connections
        self._recording: tuple[Entry, Pending] | None = None  # the last entry, on its way to the disk
        self._renewing: Pending | None = None
        self._marked_at = self.clock()
        self._before: tuple[int, list[str]] | None = None  # the epoch before, and up to where it reads

    def __call__(self, batch: Batch, epoch: int) -> None:
        """One micro-batch. Whatever is raised here stops the query; it is kept for the user in its own type."""
        if self.stop.is_set():
            raise Stopping(f"epoch {epoch} is left to the next start")
        self.idle.clear()
        self.running, self.taken.term.settled = epoch, False
        try:
            with of_pipeline(self.taken.owner.pipeline), self._at_work, fenced_first(self.taken.term):
                self._run(batch, epoch)
        except BaseException as error:
            self.failure = error
            self.observer.failed(epoch, self._course(epoch), error)
            raise
        finally:
            self.running = None
            self.idle.set()

    def close(self) -> None:
        """Wait for the ledger's last write."""
        self.await_record()
        self.background.close()
        self.taken.term.settled = self.settled

    @property
    def settled(self) -> bool:
        """Whether nothing of the last epoch can be decided that is not committed everywhere."""
        return self.idle.is_set() and not self.taken.coordinator.deciding

    def keep_marker_alive(self) -> None:
        """Asked every now and then: an idle pipeline's marker is written again before it expires."""
        if self._last is None or self.clock() - self._marked_at < self.keep_alive_s:
            return
        if self._renewing is not None:
            pending, self._renewing = self._renewing, None
            pending.result()
        self._marked_at = self.clock()
        self._renewing = self.background.submit(self._renew_marker)

    def await_record(self) -> None:
        """No epoch is decided before its predecessor is in the ledger: a replay of that one needs the entry."""
        if self._recording is not None:
            entry, written = self._recording
            try:
                written.result()
            except OSError as error:
                log.warning(
                    "epoch %d: its ledger entry is written once more: %s", entry.epoch, error,
                    extra={"event": "ledger_rewritten", "epoch": entry.epoch, "reason": str(error)},
                )  # fmt: skip
                self._record(entry)
            self._recording = None

    def require_none_dropped(self, batch: Batch, epoch: int) -> None:
        """No row of the epoch was behind the watermark, where the pipeline says that none may be."""
        if dropped := batch.late_rows():
            owner = self.taken.owner
            staged = owner.guarantee is Guarantee.EXACTLY_ONCE
            visible = (
                "Nothing of the epoch is visible" if staged else f"The rest may be visible ({owner.guarantee.value})"
            )
            raise RowsDropped(
                f"pipeline {owner.pipeline!r}, epoch {epoch}: Spark dropped {dropped} rows (or groups of rows) "
                f"behind the watermark, and on_late_rows='fail' says that none may be. {visible}. "
                "The watermark's delay is too short for how far apart in time the records of an epoch and of its "
                "partitions are: widen withWatermark(...) or lower max_records_per_epoch, and start with a new home; "
                "or let this epoch go without them: on_late_rows='drop'."
            )

    def establish_marker(self, context: EpochContext) -> None:
        """Before its first epoch a pipeline's deciding sink gets a marker: from then on a missing one is gone.

        (A start that trusts the ledger instead of a lost marker has written it already.)
        """
        decider = self.taken.coordinator.decider
        if decider is None or self.taken.expected.is_ours(decider):
            return
        sink, taken = self.taken.sinks[decider], self.taken
        assert isinstance(sink, DecidingSink)
        taken.term.require_current()  # where the newer driver runs without this sink, nobody has fenced us in it
        begins = taken.checkpoint.initial()
        last = LastCommit(
            lineage=taken.owner.lineage,
            epoch=NEVER,
            term=taken.owner.term,
            positions={place: begins.get(place, 0) for place in context.positions},
        )
        sink.write_marker(last)
        self._last = last
        taken.expected.note([decider], NEVER)
        held = to_record(taken.expected.held, decider)
        taken.term.begin(NEVER, taken.resolved, held, taken.sinks, decider)

    def require_all_hold(self) -> None:
        """Before anything of an epoch is written: what this driver and older ones committed is still there."""
        for name, sink in self.taken.sinks.items():
            if sink.remembers:
                with of_sink(name):
                    self.taken.expected.require(name, sink.last_commit())

    def _run(self, batch: Batch, epoch: int) -> None:
        taken = self.taken
        positions = taken.checkpoint.positions(epoch)
        if self._before is None or self._before[0] != epoch - 1:
            self._before = self._known_end(epoch - 1)  # at a start; a replay's predecessor, or the last committed one
        if self._before is not None:
            require_continuity(taken.checkpoint, *self._before, positions)
        context = EpochContext(
            epoch=epoch,
            positions=positions.kafka,
            input_rows=taken.checkpoint.input_rows(epoch, positions),
            begins=self._begins(epoch),
            skipped=taken.checkpoint.passed_over(taken.skips, epoch, positions),
        )
        batch.prepare(epoch, positions)
        if epoch <= taken.recovered.committed:
            self.replay(context, positions, batch)
        elif taken.owner.guarantee is Guarantee.AT_MOST_ONCE:
            self._run_at_most_once(context, positions, batch)
        else:
            self._run_once(context, positions, batch)
        self._before = epoch, positions.texts
        self._marked_at = self.clock()

    def _run_once(self, context: EpochContext, positions: Positions, batch: Batch) -> None:
        """The normal way. The offset log is synced while the tasks work; the last ledger entry follows the commits."""
        owner = self.taken.owner
        journal = Journal(self, context, positions, batch)
        attempted = self.taken.coordinator.carry_out(context, batch.rows, journal, batch.count, self._keep_on)
        attempted.input_rows = _input_rows(context, batch)
        decider = self.taken.coordinator.decider
        last = LastCommit(
            lineage=owner.lineage,
            epoch=context.epoch,
            term=owner.term,
            outcome=attempted.sinks[decider].outcome if decider is not None else None,
            positions=context.positions,
        )
        self.taken.expected.note(self.taken.sinks, context.epoch)
        self._last = last if decider is not None else None
        entry = self.entries.entry(context, positions, attempted, DONE)
        self._recording = entry, self.background.submit(lambda: self._record(entry))
        self._finish(entry)

    def replay(self, context: EpochContext, positions: Positions, batch: Batch) -> None:
        """The epoch is committed: rebuild the state by running it, compare, write nothing."""
        taken, pipeline = self.taken, self.taken.owner.pipeline
        expected = expected_outcomes(
            context, positions.texts, taken.recovered, taken.ledger, pipeline=pipeline, sinks=taken.sinks
        )
        with batch.rows(context) as rows:
            now = {name: self._digest(context, name, rows[name], batch) for name in taken.sinks}
        crashpoints.reach("replaying", context.epoch)
        diverged = compare_replay(pipeline, context.epoch, expected, now)
        if diverged is not None:
            if self.on_divergence == "fail":
                raise diverged
            log.error("%s", diverged, extra={"event": "replay_diverged", "epoch": context.epoch})
        if taken.ledger.read(context.epoch) is None:
            parts = {name: Voted(outcome) for name, outcome in (expected or now).items()}
            self._record(self.entries.entry(context, positions, Attempted(parts, 0), DONE))
        log.info(
            "epoch %d was committed already: state rebuilt, nothing written", context.epoch,
            extra={"event": "epoch_replayed", "epoch": context.epoch},
        )  # fmt: skip

    def _run_at_most_once(self, context: EpochContext, positions: Positions, batch: Batch) -> None:
        """Claim it first, write once, never again: an epoch that may have been written is given up."""
        taken = self.taken
        begun = taken.decisions.of(context.epoch) or taken.ledger.read(context.epoch)
        with batch.rows(context) as rows:
            if begun is not None:
                _require_same_plan(begun, positions)
                given_up = {name: self._digest(context, name, rows[name], batch).rows for name in taken.sinks}
                log.warning(
                    "epoch %d may be visible in part: given up (at-most-once), rows %s", context.epoch, given_up,
                    extra={"event": "epoch_given_up", "epoch": context.epoch, "rows": given_up},
                )  # fmt: skip
                return
            taken.checkpoint.sync_positions(context.epoch)  # what is begun survives a power cut, and so does its plan
            # Whoever claims it is the only one who writes it: a driver that was paused here wakes to a taken slot.
            taken.decisions.decide(self.entries.entry(context, positions, Attempted({}, 1), STARTED))
            taken.coordinator.course = course = Course(context.epoch, self.clock())
            parts = self._write_once(context, rows, batch)
        crashpoints.reach("written", context.epoch)
        self.require_none_dropped(batch, context.epoch)
        done = Attempted(parts, 1, input_rows=_input_rows(context, batch))
        entry = self.entries.entry(context, positions, done, DONE)
        self._record(entry)
        course.ended = self.clock()
        self._finish(entry)

    def _write_once(self, context: EpochContext, rows: Mapping[str, Any], batch: Batch) -> dict[str, Voted]:
        parts: dict[str, Voted] = {}
        for name, sink in self.taken.sinks.items():
            sink.begin(context)
            crashpoints.reach("begun", context.epoch)
            try:
                outcome = sink.write(context, rows[name])
            except FINAL:
                raise
            except Exception as error:  # noqa: BLE001 - losing it is what at-most-once means
                log.warning(
                    "epoch %d was lost in part (at-most-once), sink %r: %s", context.epoch, name, error,
                    extra={"event": "epoch_lost_in_part", "epoch": context.epoch, "sink": name, "reason": str(error)},
                )  # fmt: skip
                outcome = None
            parts[name] = Voted(outcome if outcome is not None else self._digest(context, name, rows[name], batch))
        return parts

    def _digest(self, context: EpochContext, name: str, rows: Any, batch: Batch) -> Outcome:
        found = self.taken.sinks[name].digest(context, rows)
        return found if found is not None else batch.count(rows)

    def _finish(self, entry: Entry) -> None:
        self.finished.append(entry)
        self.epochs_committed += 1
        self.rows_read += entry.input_rows or 0
        self.rows_written.update({name: part.rows for name, part in entry.sinks.items()})
        course = self._course(entry.epoch)
        assert course is not None
        self.observer.committed(entry, course)

    def _course(self, epoch: int) -> Course | None:
        course = self.taken.coordinator.course
        return course if course is not None and course.epoch == epoch else None

    def _record(self, entry: Entry) -> None:
        self.taken.term.require_current()
        self.taken.ledger.write(entry)
        crashpoints.reach("recorded", entry.epoch)
        self.recorded(entry)

    def _renew_marker(self) -> None:
        decider = self.taken.coordinator.decider
        assert decider is not None
        if not self._at_work.acquire(blocking=False):
            return  # an epoch is under way, which writes it anyway
        try:
            sink = self.taken.sinks[decider]
            assert isinstance(sink, DecidingSink)
            assert self._last is not None
            sink.write_marker(self._last)
        finally:
            self._at_work.release()

    def _known_end(self, epoch: int) -> tuple[int, list[str]] | None:
        """Up to where a committed epoch reads, if the ledger knows."""
        entry = self.taken.ledger.read(epoch) if 0 <= epoch <= self.taken.recovered.committed else None
        return (epoch, entry.positions) if entry is not None and entry.positions else None

    def _begins(self, epoch: int) -> Mapping[TopicPartition, int] | None:
        """Where the epoch before was committed up to, which Spark's log has just been compared with."""
        if self._before is not None:
            return kafka_positions(self._before[1])
        return self.taken.checkpoint.initial() if epoch == 0 else None

    def _keep_on(self) -> None:
        """Between two tries of a commit."""
        self.taken.term.require_current()
        if self.stop.is_set():
            raise Stopping("the pipeline was asked to stop")


def _require_same_plan(begun: Entry, positions: Positions) -> None:
    """What follows an epoch that is given up begins where that one ended."""
    if begun.positions != positions.texts:
        raise CommitUnproven(
            f"epoch {begun.epoch} was begun by another driver, up to {', '.join(begun.positions)}, and Spark runs it "
            f"up to {', '.join(positions.texts)}. The next start goes on after what was begun."
        )


def _input_rows(context: EpochContext, batch: Batch) -> int | None:
    """The lower of two counts that can only be too high: offsets have gaps, and a try that failed has read rows too."""
    counts = [count for count in (context.input_rows, batch.rows_read()) if count is not None]
    return min(counts, default=None)
