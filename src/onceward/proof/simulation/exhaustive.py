"""Every schedule of a small model: no luck, no seed.

2 tasks, 2 partitions, 3 epochs. Up to two events, each at every step where it makes a difference: a crash of the
driver before every effect (also in the recovery from the first crash), or a request that is answered by silence and
arrives at one of several later moments (also after its driver's death). Steps that only look are left out: a crash
before a look and one before the next effect leave the same world behind.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from onceward.proof.simulation.campaign import Tally, explain, quick
from onceward.proof.simulation.driver import Parts
from onceward.proof.simulation.schedule import BY_NAME, Fault, Schedule
from onceward.proof.simulation.simulate import Run, simulate

EFFECTS: Final = frozenset({"write", "claim", "sync", "log", "send", "send-end", "publish", "drop", "stage", "begin"})
REQUESTS: Final = frozenset({"send", "send-end"})
# How many steps late. Multiples of four happen at once (`Fault.fits`); the last one is after everything else.
DELAYS: Final = (0, 8, 32, 96, 4_000)
MODEL: Final = tuple(
    Schedule(seed, BY_NAME[name]) for name, seed in (("store", 0), ("2 stores", 1), ("kafka", 2), ("kafka+store", 2))
)
EVENTS: Final = 2


def visit_all(parts: Parts | None = None, *, report: Callable[[Tally], None] = lambda _: None) -> Tally:
    """Run them all, until one breaks a promise."""
    tally = Tally()
    with quick():
        for model in MODEL:
            for run in _visit(model, parts, EVENTS):
                tally.add(run)
                if run.violations:
                    tally.violation = explain(run, parts)
                    return tally
                if tally.schedules % 1_000 == 0:
                    report(tally)
    return tally


def _visit(schedule: Schedule, parts: Parts | None, events: int) -> Iterator[Run]:
    run = simulate(schedule, parts, trace=events > 0)
    yield run
    if events == 0:
        return
    after = schedule.faults[-1].step if schedule.faults else 0
    for step, what in run.trace:
        if step <= after:
            continue
        for fault in _events(step, what):
            yield from _visit(replace(schedule, faults=(*schedule.faults, fault)), parts, events - 1)


def _events(step: int, what: str) -> Iterator[Fault]:
    if what in EFFECTS:
        yield Fault(step, "kill")
    if what in REQUESTS:
        yield from (Fault(step, "delay", delay) for delay in DELAYS)
