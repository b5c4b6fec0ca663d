"""Many schedules: until one breaks a promise, or none does."""

import gc
import logging
import multiprocessing
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from onceward.proof.simulation.patching import Patches
from onceward.proof.simulation.schedule import Schedule, scheduled
from onceward.proof.simulation.shrink import shrink
from onceward.proof.simulation.simulate import Run, simulate
from onceward.proof.simulation.story import condensed

BLOCK: Final = 1_000  # seeds that a process takes at once
T = TypeVar("T")


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
    reached: set[tuple[str, str]] = field(default_factory=set)
    violation: Violation | None = None

    def add(self, run: Run) -> None:
        self.schedules += 1
        self.steps += run.steps
        self.drivers += run.drivers
        self.reached |= run.reached

    def merge(self, other: "Tally") -> None:
        """What another process counted."""
        self.schedules += other.schedules
        self.steps += other.steps
        self.drivers += other.drivers
        self.reached |= other.reached


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
                with quick():
                    tally.violation = explain(simulate(scheduled(broken), patches), patches)
                break
            report(tally)
    return tally


def in_order(work: Callable[..., T], tasks: Sequence[tuple[Any, ...]], jobs: int) -> Generator[T, None, None]:
    """What each task comes to, in their order: so the first violation is the same in one process and in many."""
    if jobs == 1:
        for task in tasks:
            yield work(*task)
        return
    # Not forked: this process may have threads.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            yield from pool.map(work, *zip(*tasks, strict=True))
        finally:
            pool.shutdown(cancel_futures=True)


def _block(seeds: Sequence[int], patches: Patches | None) -> tuple[Tally, int | None]:
    """Some seeds, until one breaks a promise; and which."""
    tally = Tally()
    with quick():
        for seed in seeds:
            run = simulate(scheduled(seed), patches)
            tally.add(run)
            if run.violations:
                return tally, seed
    return tally, None


def explain(run: Run, patches: Patches | None) -> Violation:
    """Shrink what was found, and tell the shortest one's story."""
    first = next(iter(run.violations))
    shortest = shrink(run.schedule, lambda schedule: first in simulate(schedule, patches).violations)
    story: list[str] = []
    again = simulate(shortest, patches, story)
    return Violation(run.schedule, dict(run.violations), shortest, dict(again.violations), condensed(story))
