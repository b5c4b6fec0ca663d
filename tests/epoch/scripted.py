# ruff: noqa: ARG002 - a sink's methods take what the contract says
"""Sinks and a journal that do as a script says, and one list of everything they were asked, in order."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

from onceward.epoch.contract import DecidingSink, EpochContext, LastCommit, Owner, TwoPhaseCommitSink, Verdict
from onceward.epoch.coordinator import Attempted, Coordinator
from onceward.epoch.outcome import Outcome, TopicPartition
from support.clocks import MONOTONIC

CONTEXT = EpochContext(epoch=7, positions={TopicPartition("in", 1): 20, TopicPartition("in", 0): 10})
JOURNAL = "journal"


class Lost(Exception):
    """What goes away when it is tried again: a lost task, a database that does not answer."""


class Hopeless(Exception):
    """What stays the same however often it is tried."""


class Event(NamedTuple):
    """Who was asked for what in which try, and how it ended: "ok", "aborted" (a verdict) or an exception's name."""

    who: str
    step: str
    attempt: int
    end: str


class World:
    """Everything a coordinator touches. `script`: for (who, step), what happens the first, second, ... time.

    An exception is raised, a verdict is returned, None is the normal thing, and so is everything after the end.
    """

    def __init__(
        self,
        *sinks: str,
        decider: str | None = None,
        script: Mapping[tuple[str, str], Iterable[Exception | Verdict | None]] | None = None,
        kind: type[Coordinator] = Coordinator,
    ) -> None:
        self.events: list[Event] = []
        self.slept: list[float] = []
        self.prepared: list[dict[str, Any]] = []
        self.counted: list[Any] = []
        self.attempt = 0
        self._script: dict[tuple[str, str], Iterator[Exception | Verdict | None]] = {
            place: iter(answers) for place, answers in (script or {}).items()
        }
        self._now = MONOTONIC
        made = [Deciding(self, name) if name == decider else Scripted(self, name) for name in sinks]
        self.sinks: dict[str, Scripted] = {sink.name: sink for sink in made}
        self.coordinator = kind(
            self.sinks,
            is_final=lambda error: isinstance(error, Hopeless),
            clock=self.clock,
            sleep=self.slept.append,
        )

    def run(self) -> Attempted:
        rows = {name: f"rows of {name}" for name in self.sinks}
        return self.coordinator.carry_out(CONTEXT, lambda _: nullcontext(rows), self, self.count, self.keep_on)

    def keep_on(self) -> None:
        self.play(JOURNAL, "keep_on")

    def play(self, who: str, step: str, attempt: int | None = None) -> Verdict:
        """Do what the script says, and write it down."""
        self.attempt = self.attempt if attempt is None else attempt
        answer = next(self._script.get((who, step), iter(())), None)
        if isinstance(answer, Exception):
            self.events.append(Event(who, step, self.attempt, type(answer).__name__))
            raise answer
        verdict = answer or Verdict.COMMITTED
        self.events.append(Event(who, step, self.attempt, "aborted" if verdict is Verdict.ABORTED else "ok"))
        return verdict

    def lines(self) -> list[str]:
        """The events as `who.step`; the step of one who failed ends with `!`."""
        return [f"{who}.{step}{'' if end == 'ok' else '!'}" for who, step, _, end in self.events]

    def asked(self, step: str) -> list[str]:
        return [event.who for event in self.events if event.step == step]

    def clock(self) -> float:
        self._now += 0.010
        return self._now

    def count(self, rows: Any) -> Outcome:
        self.counted.append(rows)
        return Outcome(rows=5, digest=55)

    def open(self) -> None:
        if (JOURNAL, "open") in self._script:  # else it is not worth a line in every test
            self.play(JOURNAL, "open")

    def ready(self) -> None:
        self.play(JOURNAL, "ready")

    def prepare(self, attempted: Attempted) -> None:
        self.prepared.append({name: voted.committable for name, voted in attempted.sinks.items()})
        self.play(JOURNAL, "prepare")

    def decide(self, attempted: Attempted) -> None:
        self.play(JOURNAL, "decide")


class Scripted(TwoPhaseCommitSink):
    """One sink of a world. It checks by itself that it is handed its own things."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.outcome: Outcome | None = Outcome(rows=3, digest=9)
        self.computed_s = 0.0

    @property
    def computing_s(self) -> float:
        return self.computed_s

    def play(self, step: str, context: EpochContext) -> Verdict:
        assert (context.epoch, context.positions) == (CONTEXT.epoch, CONTEXT.positions)
        return self.world.play(self.name, step, context.attempt)

    def vote(self, context: EpochContext) -> dict[str, Any]:
        return {"version": 1, "sink": self.name, "attempt": context.attempt}

    def open(self, owner: Owner) -> None:
        raise AssertionError("not the coordinator's business")

    def last_commit(self) -> LastCommit | None:
        raise AssertionError("not the coordinator's business")

    def begin(self, context: EpochContext) -> None:
        self.play("begin", context)

    def write(self, context: EpochContext, rows: Any) -> Outcome | None:
        assert rows == f"rows of {self.name}"
        self.play("write", context)
        return self.outcome

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        assert outcome == (self.outcome or Outcome(rows=5, digest=55))
        self.play("pre_commit", context)
        return self.vote(context)

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        assert committable == self.vote(context)
        self.play("commit", context)

    def abort(self, context: EpochContext) -> None:
        self.play("abort", context)

    def digest(self, context: EpochContext, rows: Any) -> Outcome | None:
        raise AssertionError("not the coordinator's business")


class Deciding(Scripted, DecidingSink):
    """The sink whose own commit decides."""

    def decide(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
        assert committable == self.vote(context)
        return self.play("decide", context)

    def peek(self, pipeline: str) -> LastCommit | None:
        raise AssertionError("not the coordinator's business")

    def write_marker(self, last: LastCommit) -> None:
        raise AssertionError("not the coordinator's business")
