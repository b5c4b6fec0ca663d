"""One epoch from begin to completion over all sinks of a pipeline: the two-phase commit.

Pure: the journal, clock, sleep and what counts as final are passed in.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from onceward import crashpoints
from onceward.epoch.contract import Committable, DecidingSink, EpochContext, TwoPhaseCommitSink, Verdict
from onceward.epoch.outcome import Outcome
from onceward.errors import CommitUnfinished, EpochFailed, PipelineFenced

ATTEMPTS: Final = 6
BACK_OFF_S: Final = (0.0, 0.2, 1.0, 3.0, 5.0)  # the first retry at once: most failures are a lost task or worker
COMMIT_BACK_OFF_S: Final = (0.05, 0.2, 1.0, 3.0, 5.0, 10.0, 30.0)  # the last one for ever

log = logging.getLogger("onceward.epoch")


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

    @property
    def rows(self) -> int:
        """What all sinks received together."""
        return sum(voted.outcome.rows for voted in self.sinks.values())


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
    ) -> None:
        # The decider comes last in everything: its transaction has a timeout.
        self.sinks = dict(sorted(sinks.items(), key=lambda item: isinstance(item[1], DecidingSink)))
        self.decider = next((name for name, sink in self.sinks.items() if isinstance(sink, DecidingSink)), None)
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
        causes: list[str] = []
        for attempt in range(1, ATTEMPTS + 1):
            trying, began = replace(context, attempt=attempt), self._clock()
            try:
                journal.open()
                with rows(trying) as mine:
                    attempted = self._vote(trying, mine, count)
                journal.ready()
                if self.decider is not None and len(self.sinks) > 1:
                    journal.prepare(attempted)
            except Exception as error:
                self.abort(trying)
                if self._is_final(error):
                    raise
                causes.append(_line(error))
                if attempt == ATTEMPTS:
                    raise EpochFailed(_failure(context.epoch, causes)) from error
                log.warning("epoch %d, try %d was aborted and is redone: %s", context.epoch, attempt, causes[-1])
            else:
                voted = self._clock()
                if self._decide(trying, attempted, journal) is Verdict.COMMITTED:
                    decided = self._clock()
                    self.commit(trying, attempted.sinks, keep_on)
                    times = {"vote": voted - began, "decide": decided - voted, "commit": self._clock() - decided}
                    attempted.milliseconds = {step: round(took * 1000, 2) for step, took in times.items()}
                    return attempted
                causes.append("the sink proved that the commit did not happen (a transaction that timed out)")
                log.warning("epoch %d, try %d: %s; it is redone", context.epoch, attempt, causes[-1])
                self.abort(trying)
            self._sleep(BACK_OFF_S[min(attempt - 1, len(BACK_OFF_S) - 1)])
        raise EpochFailed(_failure(context.epoch, causes))

    def commit(self, context: EpochContext, parts: Mapping[str, Voted], keep_on: Callable[[], None]) -> None:
        """Decided: every sink commits, however often it takes. One that cannot does not hold up the others."""
        waiting = [name for name in self.sinks if name in parts]
        tries = 0
        while waiting:
            tried = ((name, self._commit_one(context, name, parts[name])) for name in waiting)
            failures = {name: error for name, error in tried if error is not None}
            waiting = list(failures)
            if not waiting:
                return
            name, error = next(iter(failures.items()))
            hopeless = [name for name, error in failures.items() if self._is_final(error)]
            if hopeless:
                raise self._unfinished(context, hopeless[0], failures[hopeless[0]]) from failures[hopeless[0]]
            log.warning(
                "epoch %d is decided; sink %r cannot commit it yet and is asked again: %s",
                context.epoch, name, _line(error),
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
                sink.abort(context)
                self._not_aborted.discard(name)
            except Exception as error:  # noqa: BLE001 - raised below, after the others were asked
                # Nothing of it can become visible without a decision; it only takes room until then.
                self._not_aborted.add(name)
                log.warning("epoch %d: sink %r could not clean up yet: %s", context.epoch, name, _line(error))
                if isinstance(sink, DecidingSink) or self._is_final(error):
                    stop = stop if stop is not None else error
        if stop is not None:
            raise stop

    def _vote(self, context: EpochContext, rows: Mapping[str, Any], count: Callable[[Any], Outcome]) -> Attempted:
        parts: dict[str, Voted] = {}
        for name, sink in self.sinks.items():
            if name in self._not_aborted:
                sink.abort(context)
                self._not_aborted.discard(name)
            began = self._clock()
            sink.begin(context)
            parts[name] = Voted(Outcome(), milliseconds={"begin": self._since(began)})
        crashpoints.reach("begun", context.epoch)
        for name, sink in self.sinks.items():
            began = self._clock()
            outcome = sink.write(context, rows[name])
            parts[name].outcome = outcome if outcome is not None else count(rows[name])
            parts[name].milliseconds["write"] = self._since(began)
        crashpoints.reach("written", context.epoch)
        for name, sink in self.sinks.items():
            began = self._clock()
            parts[name].committable = sink.pre_commit(context, parts[name].outcome)
            parts[name].milliseconds["pre_commit"] = self._since(began)
            crashpoints.reach("voted", context.epoch)
        return Attempted(parts, context.attempt)

    def _decide(self, context: EpochContext, attempted: Attempted, journal: Journal) -> Verdict:
        """From here on an error is not a no: nothing is aborted."""
        if self.decider is None:
            journal.decide(attempted)
            crashpoints.reach("decided", context.epoch)
            return Verdict.COMMITTED
        if len(self.sinks) > 1:
            crashpoints.reach("prepared", context.epoch)
        sink = self.sinks[self.decider]
        assert isinstance(sink, DecidingSink)
        began = self._clock()
        verdict = sink.decide(context, attempted.sinks[self.decider].committable)
        attempted.sinks[self.decider].milliseconds["decide"] = self._since(began)
        if verdict is Verdict.COMMITTED:
            crashpoints.reach("decided", context.epoch)
        return verdict

    def _commit_one(self, context: EpochContext, name: str, part: Voted) -> Exception | None:
        began = self._clock()
        try:
            self.sinks[name].commit(context, part.committable)
        except Exception as error:  # noqa: BLE001 - the caller decides: again, or stop with a name
            return error
        if name != self.decider:
            part.milliseconds["commit"] = self._since(began)
            crashpoints.reach("committed", context.epoch)
        return None

    def _since(self, began: float) -> float:
        return round((self._clock() - began) * 1000, 2)

    def _unfinished(self, context: EpochContext, name: str, error: Exception) -> CommitUnfinished:
        ends = ", ".join(f"{place} up to {offset}" for place, offset in sorted(context.positions.items()))
        return CommitUnfinished(
            f"epoch {context.epoch} is decided, and sink {name!r} has not made it visible: {_line(error)}. "
            f"Its input: {ends or 'see the ledger'}. Nothing is lost: the next start, or `onceward resolve`, goes on "
            "with this commit before anything else."
        )


def _line(error: Exception) -> str:
    """The error's first line, and of a Java exception also the last cause, since its first line says nothing."""
    lines = str(error).strip().splitlines()
    causes = [line.strip() for line in lines if line.startswith("Caused by: ")]
    return f"{type(error).__name__}: {' '.join([*lines[:1], *causes[-1:]])}"[:500]


def _failure(epoch: int, causes: list[str]) -> str:
    tries = "; ".join(f"try {number}: {cause}" for number, cause in enumerate(causes, start=1))
    return f"epoch {epoch} was aborted {len(causes)} times, nothing of it is visible and nothing is lost. {tries}"
