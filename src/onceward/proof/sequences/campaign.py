"""Many sequences, one after the other, on one set of servers: `onceward prove --sequences N`."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from onceward.kafka.wire import Cluster, Wire
from onceward.proof.chaos.stack import Stack
from onceward.proof.sequences.choosing import Sequence
from onceward.proof.sequences.drivers import Drivers
from onceward.proof.sequences.hands import RealHands, Servers
from onceward.proof.sequences.playing import Told, play


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked for. Each sequence has a seed of its own: the first one's, the next number, ..."""

    seed: int
    sequences: int
    minutes: float | None = None


@dataclass(slots=True)
class Found:
    """What came of all of them."""

    plan: Plan
    played: int = 0
    seconds: float = 0.0
    broken: list[Told] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    unreached: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    epochs: int = 0
    records: int = 0

    @property
    def exact(self) -> bool:
        return not self.broken

    def add(self, told: Told) -> None:
        self.played += 1
        self.actions += told.actions
        self.kills += told.kills
        self.unreached += told.unreached
        self.refusals += told.refusals
        self.epochs += told.epochs
        self.records += told.records
        if told.faults:
            self.broken.append(told)


def prove(plan: Plan, folder: Path, report: Callable[[str], None]) -> Found:
    """Everything happens below `folder`; no process outlives this call. What a broken sequence has left is kept."""
    found, began = Found(plan), time.monotonic()
    drivers = Drivers(folder / "drivers")
    try:
        with Stack(folder / "stack", report=report) as stack, closing(Wire(Cluster(stack.bootstrap))) as wire:
            servers = Servers(stack, wire, drivers, folder / "sequences")
            for seed in range(plan.seed, plan.seed + plan.sequences):
                if plan.minutes is not None and time.monotonic() - began > 60 * plan.minutes:
                    break
                found.add(_one(seed, servers, report, step_by_step=plan.sequences == 1))
                found.seconds = time.monotonic() - began
                report(_line(found, seed))
            drivers.clear()
            servers.database.close()
    finally:
        drivers.clear()
    return found


def _one(seed: int, servers: Servers, report: Callable[[str], None], *, step_by_step: bool) -> Told:
    planned = Sequence(seed)
    log = planned.world.log
    hands = RealHands(servers, seed, log.partitions, log.limit, planned.backend)
    told = play(seed, hands, report if step_by_step else lambda _: None)
    if told.faults:
        steps = () if step_by_step else (f"  {it}" for it in told.steps)
        for line in (f"sequence {seed} is not exact:", *told.faults, *steps):
            report(line)
        report(f"again: onceward prove --sequences 1 --seed {seed}")
    else:
        hands.clear()
    return told


def _line(found: Found, seed: int) -> str:
    kills = found.kills.total()
    return f"{found.seconds:6.0f} s  sequence {seed}: {found.played} played, {kills} kills, {len(found.broken)} broken"
