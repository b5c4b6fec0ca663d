"""Planted bugs of the two-phase commit. None of this is on the shipped path."""

from collections.abc import Callable, Mapping
from typing import Any

from onceward.epoch.contract import EpochContext, Verdict
from onceward.epoch.coordinator import Attempted, Coordinator, Journal, Voted
from onceward.epoch.outcome import Outcome
from onceward.errors import OncewardError


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


class PublishesEarly(Coordinator):
    """The vote makes it visible."""

    def _vote(self, context: EpochContext, rows: Mapping[str, Any], count: Callable[[Any], Outcome]) -> Attempted:
        attempted = super()._vote(context, rows, count)
        for name, part in attempted.sinks.items():
            if name != self.decider:
                self.sinks[name].commit(context, part.committable)
        return attempted


def compares_nothing(*_: object) -> None:
    """A commit goes in on top of whatever the target holds."""
