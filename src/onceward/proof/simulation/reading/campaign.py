"""Many schedules of reading: until one breaks a promise, or none does."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from onceward.proof.simulation.campaign import BLOCK, in_order, quick
from onceward.proof.simulation.patching import Patches, patched
from onceward.proof.simulation.reading.schedule import Schedule, scheduled
from onceward.proof.simulation.reading.simulate import Run, simulate


@dataclass(slots=True)
class Violation:
    """A schedule that broke a promise, the shortest one like it, and its story."""

    schedule: Schedule
    broken: dict[str, list[str]]
    shortest: Schedule
    shortest_broken: dict[str, list[str]]
    story: list[str]


@dataclass(slots=True)
class Tally:
    """What a campaign came to."""

    schedules: int = 0
    requests: int = 0
    ended: Counter[str] = field(default_factory=Counter)
    reached: set[tuple[str, str]] = field(default_factory=set)  # who read, and what went wrong
    violation: Violation | None = None

    def add(self, run: Run) -> None:
        self.schedules += 1
        self.requests += run.requests
        self.ended[run.ended] += 1
        self.reached |= {(run.schedule.who, kind) for kind in run.reached}

    def merge(self, other: "Tally") -> None:
        """What another process counted."""
        self.schedules += other.schedules
        self.requests += other.requests
        self.ended += other.ended
        self.reached |= other.reached


def campaign(
    seeds: Sequence[int],
    patches: Patches | None = None,
    *,
    jobs: int = 1,
    report: Callable[[Tally], None] = lambda _: None,
) -> Tally:
    """Every seed, until one breaks a promise; that one is shrunk. The same comes out whatever `jobs` is."""
    tally = Tally()
    blocks = [(seeds[at : at + BLOCK], patches) for at in range(0, len(seeds), BLOCK)]
    with closing(in_order(_block, blocks, jobs)) as found:
        for part, broken in found:
            tally.merge(part)
            if broken is not None:
                with quick(), patched(patches or {}):
                    tally.violation = explain(simulate(scheduled(broken)))
                break
            report(tally)
    return tally


def _block(seeds: Sequence[int], patches: Patches | None) -> tuple[Tally, int | None]:
    """Some seeds, until one breaks a promise; and which."""
    tally = Tally()
    with quick(), patched(patches or {}):
        for seed in seeds:
            run = simulate(scheduled(seed))
            tally.add(run)
            if run.violations:
                return tally, seed
    return tally, None


def explain(run: Run) -> Violation:
    """Without the troubles that it does not take; and its story."""
    first, shortest = next(iter(run.violations)), run.schedule
    for trouble in run.schedule.troubles:
        fewer = replace(shortest, troubles=tuple(it for it in shortest.troubles if it != trouble))
        if first in simulate(fewer).violations:
            shortest = fewer
    story: list[str] = []
    again = simulate(shortest, story)
    return Violation(run.schedule, dict(run.violations), shortest, dict(again.violations), story)
