"""Many schedules: until one breaks a promise, or none does."""

import gc
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from onceward.proof.simulation.driver import Parts
from onceward.proof.simulation.schedule import Schedule, scheduled
from onceward.proof.simulation.shrink import shrink
from onceward.proof.simulation.simulate import Run, simulate
from onceward.proof.simulation.story import condensed


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
    steps: int = 0
    drivers: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    reached: set[tuple[str, str]] = field(default_factory=set)
    violation: Violation | None = None

    def add(self, run: Run) -> None:
        """One more."""
        self.schedules += 1
        self.steps += run.steps
        self.drivers += run.drivers
        self.reached |= run.reached


@contextmanager
def quick() -> Iterator[None]:
    """No log lines about faults that are meant, and a collector that looks less often: worlds are short-lived."""
    before, level = gc.get_threshold(), logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.set_threshold(50_000, 5, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
        logging.disable(level)


def campaign(
    seeds: Iterable[int], parts: Parts | None = None, *, report: Callable[[Tally], None] = lambda _: None
) -> Tally:
    """Every seed, until one breaks a promise; that one is shrunk."""
    tally = Tally()
    with quick():
        for seed in seeds:
            run = simulate(scheduled(seed), parts)
            tally.add(run)
            if run.violations:
                tally.violation = explain(run, parts)
                break
            if tally.schedules % 1_000 == 0:
                report(tally)
    return tally


def explain(run: Run, parts: Parts | None) -> Violation:
    """Shrink what was found, and tell the shortest one's story."""
    first = next(iter(run.violations))
    shortest = shrink(run.schedule, lambda schedule: first in simulate(schedule, parts).violations)
    story: list[str] = []
    again = simulate(shortest, parts, story)
    return Violation(run.schedule, dict(run.violations), shortest, dict(again.violations), condensed(story))
