"""Thousands of epochs with random failures: a pure checker judges what the sinks were asked, and can itself fail."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from epoch.scripted import JOURNAL, Event, Hopeless, Lost, World
from onceward.epoch.contract import EpochContext, Verdict
from onceward.epoch.coordinator import Attempted, Coordinator, Journal, Voted
from onceward.epoch.tries import ATTEMPTS
from onceward.errors import CommitUnfinished, EpochFailed, PipelineFenced

SCHEDULES = 4_000
ORDER = ("begin", "write", "pre_commit")


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "onceward.epoch")  # the failures are meant


def world_of(seed: int, kind: type[Coordinator] = Coordinator) -> World:
    """A random pipeline with random failures, always the same for one seed."""
    random = Random(seed)
    names = [f"s{number}" for number in range(random.randint(1, 4))]
    decider = random.choice(names) if random.random() < 0.5 else None
    final = random.choice([0.0, 0.05, 0.3])

    def failures(*likelihoods: float) -> list[Exception | Verdict | None]:
        likely = random.choice(likelihoods)
        kinds = [Hopeless if random.random() < final else Lost for _ in range(25)]
        return [kind("scripted") if random.random() < likely else None for kind in kinds]

    script: dict[tuple[str, str], list[Exception | Verdict | None]] = {
        (name, step): failures(0.0, 0.0, 0.05, 0.2) for name in names for step in (*ORDER, "abort")
    }
    script |= {(name, "commit"): failures(0.0, 0.5, 0.9) for name in names}
    script |= {(JOURNAL, step): failures(0.0, 0.2) for step in ("ready", "prepare")}
    weights = random.choice([(6, 3, 1, 1), (0, 1, 0, 0)] if decider else [(9, 0, 1, 1)])
    script[decider or JOURNAL, "decide"] = random.choices(
        [None, Verdict.ABORTED, Lost("unknown"), PipelineFenced("x")], weights, k=ATTEMPTS
    )
    if decider is not None:
        script[decider, "commit"] = []  # its decision was its commit
    script[JOURNAL, "keep_on"] = random.choices([None, Lost("stop"), PipelineFenced("x")], [18, 1, 1], k=25)
    return World(*names, decider=decider, script=script, kind=kind)


def run(seed: int, kind: type[Coordinator] = Coordinator) -> list[str]:
    """What one schedule did against the rules."""
    world = world_of(seed, kind)
    ended: Exception | Attempted
    try:
        ended = world.run()
    except Exception as error:  # noqa: BLE001 - whatever it is, the checker judges it
        ended = error
    return violations(world.events, ended, set(world.sinks), world.coordinator.decider)


def violations(events: list[Event], ended: object, sinks: set[str], decider: str | None) -> list[str]:
    """Every way in which a history breaks the two-phase commit; pure."""
    decisions = [at for at, event in enumerate(events) if event.step == "decide"]
    settled = next((at for at in decisions if events[at].end != "aborted"), len(events))
    before, after = events[:settled], events[settled + 1 :]
    decided = settled < len(events) and events[settled].end == "ok"
    found = [f"{event} before the decision" for event in before if event.step in {"commit", "keep_on"}]
    found += [f"{event} after the decision" for event in after if event.step not in {"commit", "keep_on"}]
    if not decided:
        found += [f"{event}, but nothing is decided" for event in after]
    for number in range(1, max((event.attempt for event in events), default=0) + 1):
        mine = [event for event in before if event.attempt == number]
        is_last = settled < len(events) and number == events[settled].attempt
        found += _in_one_try(mine, sinks, decider, voted_for=is_last)
    found += _uncleaned(before, sinks)
    return found + _end(ended, after, sinks - {decider}, decided=decided)


def _in_one_try(mine: list[Event], sinks: set[str], decider: str | None, *, voted_for: bool) -> list[str]:
    """Steps in order, the decider last, and an abort of all if anything went wrong."""
    found = []
    asked = [event for event in mine if event.step in ORDER]
    ranks = [(ORDER.index(event.step), event.who == decider) for event in asked]
    if ranks != sorted(ranks):
        found.append(f"out of order: {asked}")
    if len({event[:2] for event in asked}) != len(asked):
        found.append(f"asked twice: {asked}")
    failed = next((at for at, event in enumerate(mine) if event.end != "ok" and event.step != "abort"), None)
    if failed is None and voted_for:
        expected = {(name, step) for name in sinks for step in ORDER} | {(JOURNAL, "ready")}
        expected |= {(JOURNAL, "prepare")} if decider and len(sinks) > 1 else set()
        missing = expected - {event[:2] for event in mine if event.end == "ok"}
        found += [f"decided without {place}" for place in missing]
    if voted_for and failed is not None:
        found.append(f"decided in spite of {mine[failed]}")
    if failed is not None:
        rest = mine[failed + 1 :]
        if [event.step for event in rest if event.step != "abort"] or {event.who for event in rest} != sinks:
            found.append(f"{mine[failed]} was followed by {rest}, not by an abort of all")
    return found


def _uncleaned(before: list[Event], sinks: set[str]) -> list[str]:
    """A sink begins only if its last abort, if there was one, succeeded."""
    dirty: set[str] = set()
    found = []
    for event in before:
        if event.step == "abort":
            dirty = dirty - {event.who} if event.end == "ok" else dirty | {event.who}
        elif event.step == "begin" and event.who in dirty & sinks:
            found.append(f"{event} on top of what it could not clean up")
    return found


def _end(ended: object, after: list[Event], others: set[str], *, decided: bool) -> list[str]:
    """What the caller hears fits what happened."""
    done = [event.who for event in after if event.step == "commit" and event.end == "ok" and event.who in others]
    found = [f"{name} was committed again" for name in set(done) if done.count(name) > 1]
    if isinstance(ended, Attempted) and not (decided and set(done) == others):
        found.append(f"returned, decided: {decided}, committed: {done} of {others}")
    if isinstance(ended, EpochFailed | Hopeless) and decided:
        found.append(f"{ended!r}, but the epoch is decided")
    if isinstance(ended, CommitUnfinished):
        waiting = [name for name in others if name not in done]
        tried = {event.who for event in after if event.step == "commit"}
        found += [] if decided else ["unfinished, but never decided"]
        found += [] if waiting and others <= tried else [f"unfinished, waiting {waiting}, tried {tried} of {others}"]
    return found


def test_no_schedule_of_failures_breaks_the_two_phase_commit() -> None:
    """A7, B2, B3, B4, B5, B9: commits only after the decision, no abort after it, all of them at the end."""
    broken = {seed: found for seed in range(SCHEDULES) if (found := run(seed))}
    assert broken == {}


def test_the_schedules_reach_every_kind_of_end() -> None:
    """Else the test before this one proves little."""
    ends = set()
    for seed in range(SCHEDULES // 4):
        try:
            ends.add((type(world_of(seed).run()).__name__, ""))
        except Exception as error:  # noqa: BLE001
            ends.add((type(error).__name__, type(error.__cause__).__name__ if error.__cause__ else ""))
    assert ends == {
        ("Attempted", ""), ("EpochFailed", "Lost"), ("EpochFailed", ""), ("Hopeless", ""), ("Lost", ""),
        ("PipelineFenced", ""), ("CommitUnfinished", "Hopeless"), ("CommitUnfinished", "Lost"),
    }  # fmt: skip


class AbortsTheUnknown(Coordinator):
    def _decide(self, context: EpochContext, attempted: Attempted, journal: Journal) -> Verdict:
        try:
            return super()._decide(context, attempted, journal)
        except Exception:
            self.abort(context)
            raise


class RedoesTheUnknown(Coordinator):
    def _decide(self, context: EpochContext, attempted: Attempted, journal: Journal) -> Verdict:
        try:
            return super()._decide(context, attempted, journal)
        except Exception:  # noqa: BLE001 - the planted bug
            return Verdict.ABORTED


class CommitsFirst(Coordinator):
    def _decide(self, context: EpochContext, attempted: Attempted, journal: Journal) -> Verdict:
        self.commit(context, attempted.sinks, lambda: None)
        return super()._decide(context, attempted, journal)


class TakesAbortedForCommitted(Coordinator):
    def _decide(self, context: EpochContext, attempted: Attempted, journal: Journal) -> Verdict:
        super()._decide(context, attempted, journal)
        return Verdict.COMMITTED


class LogsAndGoesOn(Coordinator):
    def commit(self, context: EpochContext, parts: Mapping[str, Voted], keep_on: Callable[[], None]) -> None:
        with suppress(CommitUnfinished):
            super().commit(context, parts, keep_on)


class CommitsOnlyTheFirst(Coordinator):
    def commit(self, context: EpochContext, parts: Mapping[str, Voted], keep_on: Callable[[], None]) -> None:
        super().commit(context, dict(list(parts.items())[:1]), keep_on)


class GivesUpAbortsHalfway(Coordinator):
    def abort(self, context: EpochContext) -> None:
        for sink in self.sinks.values():
            sink.abort(context)


class AbortsOnlyTheFirst(Coordinator):
    def abort(self, context: EpochContext) -> None:
        next(iter(self.sinks.values())).abort(context)


class ForgetsWhatIsNotCleanedUp(Coordinator):
    def abort(self, context: EpochContext) -> None:
        super().abort(context)
        self._not_aborted.clear()


class DeciderFirst(Coordinator):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sinks = dict(reversed(self.sinks.items()))


class NotesNothing(Coordinator):
    def carry_out(self, context: EpochContext, rows: Any, journal: Any, count: Any, keep_on: Any = None) -> Attempted:
        journal.prepare = lambda _: None
        return super().carry_out(context, rows, journal, count, keep_on)


@pytest.mark.parametrize(
    "planted",
    [
        AbortsTheUnknown,
        RedoesTheUnknown,
        CommitsFirst,
        TakesAbortedForCommitted,
        LogsAndGoesOn,
        CommitsOnlyTheFirst,
        GivesUpAbortsHalfway,
        AbortsOnlyTheFirst,
        ForgetsWhatIsNotCleanedUp,
        DeciderFirst,
        NotesNothing,
    ],
)
def test_a_planted_bug_is_found_by_some_schedule(planted: type[Coordinator]) -> None:
    """G3: the checker itself can fail."""
    assert any(run(seed, planted) for seed in range(SCHEDULES))
