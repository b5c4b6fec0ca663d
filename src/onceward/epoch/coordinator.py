"""One epoch from begin to completion over all sinks of a pipeline: the two-phase commit.

Pure: the journal, clock, sleep and what counts as final are passed in.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from onceward import crashpoints
from onceward.epoch.contract import (
    Committable,
    DecidingSink,
    EpochContext,
    TwoPhaseCommitSink,
    Verdict,
    decider_of,
)
from onceward.epoch.observing import UNDECIDED, AbortedTry, Asked, Course, Observer, Step
from onceward.epoch.outcome import Outcome
from onceward.epoch.patience import Patience, of_sink, passes
from onceward.epoch.tries import Judging, Tries, line_of
from onceward.errors import CommitUnfinished, PipelineFenced
from onceward.events import logger

NOT_COMMITTED: Final = "the sink proved that the commit did not happen (a transaction that timed out)"
DOING: Final = {  # each step in words
    "begin": "beginning in",
    "write": "computing rows and writing them to",
    "pre_commit": "asking for the vote of",
    "decide": "deciding in",
    "commit": "committing in",
}
COMMIT_BACK_OFF_S: Final = (0.05, 0.2, 1.0, 3.0, 5.0, 10.0, 30.0)  # the last one for ever

log = logger("onceward.epoch")


@dataclass(slots=True)
class Voted:
    """One sink's part in a try: what it received, what its commit needs, and how long each step took."""

    outcome: Outcome
    committable: Committable = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Attempted:
    """How an epoch went."""

    sinks: dict[str, Voted]
    attempts: int
    milliseconds: dict[str, float] = field(default_factory=dict)
    input_rows: int | None = None


Rows = Callable[[EpochContext], AbstractContextManager[Mapping[str, Any]]]  # each sink's rows, for one try


class Journal(Protocol):
    """What the coordinator writes down, and where."""

    def open(self) -> None:
        """Every sink still holds what this driver committed there, or raise: before anything of a try is written."""

    def ready(self) -> None:
        """Every earlier epoch is recorded and this driver is current, or raise."""

    def prepare(self, attempted: Attempted) -> None:
        """All have voted yes: durable, before the deciding sink is asked."""

    def decide(self, attempted: Attempted) -> None:
        """Where no sink decides: the decision, durable and for ever, or raise."""


class Coordinator:
    """Asks a pipeline's sinks, in the contract's order."""

    def __init__(
        self,
        sinks: Mapping[str, TwoPhaseCommitSink],
        *,
        is_final: Callable[[Exception], bool],
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        own: Callable[[Exception], Hashable | None] = lambda _: None,
        describe: Callable[[Exception], str] = line_of,
        patience: Patience | None = None,
    ) -> None:
        """`patience`: how long a try is repeated where something is out of reach; None: as often as any other."""
        # The decider comes last in everything: its transaction has a timeout.
        self.sinks = dict(sorted(sinks.items(), key=lambda item: isinstance(item[1], DecidingSink)))
        self.decider = decider_of(self.sinks)
        self.patience = patience
        self.deciding = False  # the epoch may be decided, and is not yet committed everywhere
        self.doing = ""  # for those who look on
        self.course: Course | None = None  # of the last epoch that was carried out, or is
        self.observer = Observer()
        self._judging = Judging(is_final=is_final, own=own, describe=describe)
        self._is_final = is_final
        self._clock = clock
        self._sleep = sleep
        self._not_aborted: set[str] = set()

    def carry_out(
        self,
        context: EpochContext,
        rows: Rows,
        journal: Journal,
        count: Callable[[Any], Outcome],
        keep_on: Callable[[], None] = lambda: None,
    ) -> Attempted:
        """Try the epoch until it is decided, then commit it everywhere; nothing of a failed try is ever visible.

        `keep_on` is asked between two tries of a commit, and raises to stop trying.
        """
        tries = Tries(context.epoch, self._judging, self._sleep, self.patience)
        self.course = course = Course(context.epoch, self._clock())
        attempt = 0
        while True:
            attempt += 1
            trying, began = replace(context, attempt=attempt), self._clock()
            course.try_at(began)
            try:
                self._abort_decider_first(trying)
                journal.open()
                with rows(trying) as mine:
                    attempted = self._vote(trying, mine, count)
                journal.ready()
                if self.decider is not None and len(self.sinks) > 1:
                    journal.prepare(attempted)
            except Exception as error:  # noqa: BLE001 - judged by `tries`
                self._tell_aborted(course, attempt, type(error).__name__, line_of(error))
                tries.failed(error, began, away=self._abort_patiently(trying))
                continue
            if self.patience is not None:
                self.patience.over()
            voted = course.voted = self._clock()
            if self._decide(trying, attempted, journal) is Verdict.COMMITTED:
                decided = course.decided = self._clock()
                self.commit(trying, attempted.sinks, keep_on)
                course.ended = self._clock()
                times = {"vote": voted - began, "decide": decided - voted, "commit": course.ended - decided}
                attempted.milliseconds = {step: round(took * 1000, 2) for step, took in times.items()}
                self.deciding = False
                return attempted
            self.deciding = False
            self._tell_aborted(course, attempt, UNDECIDED, NOT_COMMITTED)
            if (away := self._abort_patiently(trying)) is not None:
                tries.failed(away, voted)
            tries.again(NOT_COMMITTED)

    def commit(self, context: EpochContext, parts: Mapping[str, Voted], keep_on: Callable[[], None]) -> None:
        """Decided: every sink commits, however often it takes. One that cannot does not hold up the others."""
        waiting = [name for name in self.sinks if name in parts]
        tries, began = 0, self._clock()
        while waiting:
            tried = ((name, self._commit_one(context, name, parts[name])) for name in waiting)
            failures = {name: error for name, error in tried if error is not None}
            waiting = list(failures)
            if not waiting:
                if tries and self.patience is not None:
                    self.patience.over()
                return
            name, error = next(iter(failures.items()))
            hopeless = [name for name, error in failures.items() if self._is_final(error)]
            if hopeless:
                raise self._unfinished(context, hopeless[0], failures[hopeless[0]]) from failures[hopeless[0]]
            if self.patience is not None:
                self.patience.note(error, began, f"sink {name!r} to commit epoch {context.epoch}, which is decided")
            else:
                log.warning(
                    "epoch %d is decided; sink %r cannot commit it yet: %s", context.epoch, name, line_of(error),
                    extra={"event": "commit_delayed", "epoch": context.epoch, "sink": name, "reason": line_of(error)},
                )  # fmt: skip
            try:
                keep_on()
            except PipelineFenced:
                raise
            except Exception as stop:
                raise self._unfinished(context, name, error) from stop
            self._sleep(COMMIT_BACK_OFF_S[min(tries, len(COMMIT_BACK_OFF_S) - 1)])
            tries += 1

    def abort(self, context: EpochContext) -> None:
        """Every sink forgets the epoch, the decider first. What a sink cannot do now is done before its next try."""
        stop: Exception | None = None
        for name, sink in reversed(self.sinks.items()):
            try:
                with of_sink(name):
                    sink.abort(context)
                self._not_aborted.discard(name)
            except Exception as error:  # noqa: BLE001 - raised below, after the others were asked
                # Nothing of it can become visible without a decision; it only takes room until then.
                self._not_aborted.add(name)
                if self.patience is None or not passes(error):  # else it is waited for, which is said
                    log.warning(
                        "epoch %d: sink %r could not clean up yet: %s", context.epoch, name, line_of(error),
                        extra={
                            "event": "abort_delayed", "epoch": context.epoch, "sink": name, "reason": line_of(error),
                        },
                    )  # fmt: skip
                if isinstance(sink, DecidingSink) or self._is_final(error):
                    stop = stop if stop is not None else error
        if stop is not None:
            raise stop

    def _abort_patiently(self, context: EpochContext) -> Exception | None:
        """Abort. A decider that is out of reach is waited for (this is returned), and asked again before all else."""
        try:
            self.abort(context)
        except Exception as error:
            if self.patience is None or not passes(error):
                raise
            return error
        return None

    def _abort_decider_first(self, context: EpochContext) -> None:
        """An open transaction would hold up those who ask for its marker."""
        if self.decider is not None and self.decider in self._not_aborted:
            self._abort_left_over(context, self.decider)

    def _abort_left_over(self, context: EpochContext, name: str) -> None:
        with of_sink(name):
            self.sinks[name].abort(context)
        self._not_aborted.discard(name)

    def _vote(self, context: EpochContext, rows: Mapping[str, Any], count: Callable[[Any], Outcome]) -> Attempted:
        parts: dict[str, Voted] = {}
        for name, sink in self.sinks.items():
            if name in self._not_aborted:
                self._abort_left_over(context, name)
            began = self._clock()
            with self._asking(name, "begin", began):
                sink.begin(context)
            parts[name] = Voted(Outcome(), milliseconds={"begin": self._took("begin", name, began)})
        crashpoints.reach("begun", context.epoch)
        for name, sink in self.sinks.items():
            began = self._clock()
            with self._asking(name, "write", began):
                outcome = sink.write(context, rows[name])
                parts[name].outcome = outcome if outcome is not None else count(rows[name])
            parts[name].milliseconds["write"] = self._took("write", name, began)
            if sink.computing_s:
                parts[name].milliseconds["compute"] = round(sink.computing_s * 1000, 2)  # within "write"
        crashpoints.reach("written", context.epoch)
        for name, sink in self.sinks.items():
            began = self._clock()
            with self._asking(name, "pre_commit", began):
                parts[name].committable = sink.pre_commit(context, parts[name].outcome)
            parts[name].milliseconds["pre_commit"] = self._took("pre_commit", name, began)
            crashpoints.reach("voted", context.epoch)
        return Attempted(parts, context.attempt)

    def _decide(self, context: EpochContext, attempted: Attempted, journal: Journal) -> Verdict:
        """From here on an error is not a no: nothing is aborted."""
        self.deciding = True
        if self.decider is None:
            journal.decide(attempted)
            crashpoints.reach("decided", context.epoch)
            return Verdict.COMMITTED
        if len(self.sinks) > 1:
            crashpoints.reach("prepared", context.epoch)
        sink = self.sinks[self.decider]
        assert isinstance(sink, DecidingSink)
        began = self._clock()
        with self._asking(self.decider, "decide", began):
            verdict = sink.decide(context, attempted.sinks[self.decider].committable)
        attempted.sinks[self.decider].milliseconds["decide"] = self._took("decide", self.decider, began)
        if verdict is Verdict.COMMITTED:
            crashpoints.reach("decided", context.epoch)
        return verdict

    def _commit_one(self, context: EpochContext, name: str, part: Voted) -> Exception | None:
        began = self._clock()
        try:
            with self._asking(name, "commit", began):
                self.sinks[name].commit(context, part.committable)
        except Exception as error:  # noqa: BLE001 - the caller decides: again, or stop with a name
            return error
        if name != self.decider:
            part.milliseconds["commit"] = self._took("commit", name, began)
            crashpoints.reach("committed", context.epoch)
        return None

    @contextmanager
    def _asking(self, name: str, step: str, began: float) -> Iterator[None]:
        """What is asked stays asked when it fails: a commit that is to be tried again is still under way."""
        course = self.course if self.course is not None else Course(0, began)  # a start has no course of its own
        self.doing, course.asked = f"{DOING[step]} {name!r}", Asked(step, name, began)
        with of_sink(name):
            yield
        self.doing, course.asked = "", None

    def _took(self, step: str, sink: str, began: float) -> float:
        """In milliseconds."""
        ended = self._clock()
        if self.course is not None:  # a start finishes what its predecessor began
            self.course.steps.append(Step(step, sink, began, ended))
        return round((ended - began) * 1000, 2)

    def _tell_aborted(self, course: Course, attempt: int, cause: str, reason: str) -> None:
        tried = AbortedTry(attempt, cause, reason, self._clock())
        course.aborted.append(tried)
        self.observer.aborted(course.epoch, tried)

    def _unfinished(self, context: EpochContext, name: str, error: Exception) -> CommitUnfinished:
        ends = ", ".join(f"{place} up to {offset}" for place, offset in sorted(context.positions.items()))
        return CommitUnfinished(
            f"epoch {context.epoch} is decided, and sink {name!r} has not made it visible: {line_of(error)}. "
            f"Its input: {ends or 'see the ledger'}. Nothing is lost: the next start, or `onceward resolve`, goes on "
            "with this commit before anything else."
        )
