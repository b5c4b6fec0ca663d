"""Planted bugs of the two-phase commit and of staging sinks. None of this is on the shipped path."""

from collections.abc import Callable, Mapping
from typing import Any

from onceward.epoch.contract import Committable, EpochContext, Owner, Verdict
from onceward.epoch.coordinator import Attempted, Coordinator, Journal, Voted
from onceward.epoch.outcome import Outcome
from onceward.errors import OncewardError
from onceward.proof.history import Row
from onceward.proof.simulation.store import Store, StoreSink, Try


class LogsAndGoesOn(Coordinator):
    """A commit that fails is noted, and forgotten."""

    def commit(self, context: EpochContext, parts: Mapping[str, Voted], keep_on: Callable[[], None]) -> None:  # noqa: ARG002
        for name in self.sinks:
            if name in parts:
                self._commit_one(context, name, parts[name])


class VotesAfterTheDecision(Coordinator):
    """The decision is made when everything is written; the sinks vote on their way to the commit."""

    def _vote(self, context: EpochContext, rows: Mapping[str, Any], count: Callable[[Any], Outcome]) -> Attempted:
        attempted = super()._vote(context, rows, count)
        for name, part in attempted.sinks.items():
            if name != self.decider:
                part.committable = {}
        return attempted

    def commit(self, context: EpochContext, parts: Mapping[str, Voted], keep_on: Callable[[], None]) -> None:
        for name, part in parts.items():
            if name != self.decider and not part.committable:
                part.committable = self.sinks[name].pre_commit(context, part.outcome)
        super().commit(context, parts, keep_on)


class TakesAbortedForCommitted(Coordinator):
    """The decider proved that it did not happen, and nobody listens."""

    def _decide(self, context: EpochContext, attempted: Attempted, journal: Journal) -> Verdict:
        super()._decide(context, attempted, journal)
        return Verdict.COMMITTED


class AbortsTheUnknown(Coordinator):
    """An error of the decision is taken for a no."""

    def _decide(self, context: EpochContext, attempted: Attempted, journal: Journal) -> Verdict:
        try:
            return super()._decide(context, attempted, journal)
        except OncewardError:
            self.abort(context)
            raise


class PublishesEarly(StoreSink):
    """The vote makes it visible."""

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        committable = super().pre_commit(context, outcome)
        self.commit(context, committable)
        return committable


class MarkerApart(StoreSink):
    """First the rows, then, in another transaction, the marker."""

    def commit(self, context: EpochContext, committable: Committable) -> None:  # noqa: ARG002 - it is in the committable
        lineage, epoch, term, attempt = committable["try"]
        store, which = self.store, (lineage, epoch, term, attempt)
        if self.call("marker", lambda: store.committed(lineage)) >= epoch:
            return
        rows = store.staged.get(which, {})
        self.call("rows", lambda: store.rows.extend(row for part in committable["parts"] for row in rows[part]))
        self.call("marker", lambda: store.mark(lineage, epoch, self.owner.term))
        self.call("drop", lambda: store.staged.pop(which, None))


class CleansUpAtTheStart(StoreSink):
    """What older drivers have left is deleted, decided or not."""

    def open(self, owner: Owner) -> None:
        super().open(owner)
        self.call("drop", self.store.staged.clear)


class AbortsAnyTerm(StoreSink):
    """A paused driver that wakes deletes what its successor has staged."""

    def abort(self, context: EpochContext) -> None:
        self.call("drop", lambda: self.store.drop(self.owner.lineage, context.epoch, 10**6))


class CommitsAgain(StoreSink):
    """The rows travel in the committable, and each commit puts them in."""

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        staged = self.store.staged[self.which(context)]
        rows = [list(row) for part in self._parts for row in staged[part]]
        return {**super().pre_commit(context, outcome), "rows": rows}

    def commit(self, context: EpochContext, committable: Committable) -> None:
        lineage, epoch, *_ = committable["try"]
        again = self.store.committed(lineage) >= epoch
        super().commit(context, committable)
        if again:
            self.store.rows += [Row(*row) for row in committable["rows"]]


class AnyLineage(Store):
    """The epoch's number alone says whether it is in."""

    def committed(self, lineage: str) -> int:  # noqa: ARG002 - the bug
        return max(epoch for epoch, _ in self.markers.values())


class CountsStrangers(Store):
    """Everything that is staged goes in, also what no report names."""

    def publish(self, which: Try, parts: list[str], term: int, judge: Callable[[], None] = lambda: None) -> bool:
        return super().publish(which, [*self.staged.get(which, parts)], term, judge)


class ComparesNothing(StoreSink):
    """A commit goes in on top of whatever the store holds."""

    def judge(self, context: EpochContext, committable: Committable) -> None:
        pass
