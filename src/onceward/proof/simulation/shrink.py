"""From a schedule that breaks a promise to a shorter one that still does: fewer faults, as early as they can be."""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from onceward.proof.simulation.schedule import Fault, Schedule

TRIES: Final = 600  # a bound on the runs that shrinking may cost

Breaks = Callable[[Schedule], bool]


def shrink(schedule: Schedule, breaks: Breaks) -> Schedule:
    """The shortest schedule found that breaks the same promise."""
    left = [TRIES]

    def still(candidate: Schedule) -> bool:
        left[0] -= 1
        return left[0] > 0 and breaks(candidate)

    best = schedule
    changed = True
    while changed and left[0] > 0:
        changed = False
        for candidate in (*_without_one(best), *_simpler(best)):
            if still(candidate):
                best, changed = candidate, True
                break
    return best


def _without_one(schedule: Schedule) -> list[Schedule]:
    faults = schedule.faults
    return [replace(schedule, faults=faults[:at] + faults[at + 1 :]) for at in range(len(faults))]


def _simpler(schedule: Schedule) -> list[Schedule]:
    """Fewer epochs, a fault of argument 0, or half as late."""
    found = [replace(schedule, epochs=schedule.epochs - 1)] if schedule.epochs > 1 else []
    for at, fault in enumerate(schedule.faults):
        for other in {Fault(fault.step, fault.kind, 0), Fault(fault.step // 2, fault.kind, fault.argument)} - {fault}:
            faults = sorted((*schedule.faults[:at], other, *schedule.faults[at + 1 :]))
            found.append(replace(schedule, faults=tuple(faults)))
    return found
