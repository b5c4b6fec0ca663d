"""Looks for a planted bug: after how many schedules does which checker catch it?"""

import itertools
from dataclasses import dataclass

from onceward.proof.planted import PLANTS
from onceward.proof.simulation.campaign import quick
from onceward.proof.simulation.patching import Patches, patched
from onceward.proof.simulation.reading import schedule as readings
from onceward.proof.simulation.reading import simulate as reading
from onceward.proof.simulation.schedule import scheduled
from onceward.proof.simulation.simulate import simulate


@dataclass(frozen=True, slots=True)
class Caught:
    """By which checkers, if any, after how many schedules."""

    checkers: list[str]
    schedules: int
    seed: int = -1


def hunt(name: str, bound: int, first: int = 0) -> Caught:
    """Run schedules until the bug shows, at most `bound`; those of pipelines that cannot have it are passed over.

    first: the seed to begin with, where somebody knows one that shows it.
    """
    plant, tried = PLANTS[name], 0
    if plant.of_reading:
        return _hunted_reading(plant.patches, bound, first)
    with quick():
        for seed in itertools.count(first):
            schedule = scheduled(seed)
            if not plant.may_show(schedule):
                continue
            tried += 1
            run = simulate(schedule, plant.patches)
            if run.violations or tried == bound:
                return Caught(list(run.violations), tried, seed)
    raise AssertionError("seeds never end")


def _hunted_reading(patches: Patches, bound: int, first: int) -> Caught:
    with quick(), patched(patches):
        for seed in range(first, first + bound):
            run = reading.simulate(readings.scheduled(seed))
            if run.violations:
                return Caught(list(run.violations), seed + 1 - first, seed)
    return Caught([], bound)
