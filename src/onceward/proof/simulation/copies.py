"""A copy of a pipeline: a savepoint restored under another name, in a home of its own; the original goes on.

It shares nothing with the original but the brokers, so it may run to its end while that one's driver stands still:
whatever it does to the original is seen afterwards. It has faults of its own, which its fault's argument makes.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Final

from onceward.epoch.home import Home
from onceward.epoch.storage import Below, Storage
from onceward.proof.checkers.rows import expected
from onceward.proof.history import History, LedgerLine, Row
from onceward.proof.simulation.broker import Broker
from onceward.proof.simulation.engine import shape_of
from onceward.proof.simulation.lineages import Past
from onceward.proof.simulation.schedule import Fault, Schedule
from onceward.proof.simulation.world import World
from onceward.savepoint.manifest import load
from onceward.savepoint.place import SAVEPOINTS, Place

if TYPE_CHECKING:
    from onceward.proof.simulation.simulate import Simulation

FAULTS: Final = (
    "kill", "kill", "power", "pause", "start", "disk-before", "disk-after", "disk-echo", "sink-before", "sink-after",
    "task", "lose-answer", "delay", "restore",
)  # fmt: skip
ELSEWHERE: Final = "original"  # where the copy's machine has the original's savepoints


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy begins with. `upto`: the last epoch that its savepoint holds."""

    pipeline: str
    topic: str
    savepoint: str
    past: Past
    upto: int
    broker: Broker | None

    def place(self, storage: Storage) -> Place:
        return Place(Below(storage, ELSEWHERE), self.savepoint, f"{ELSEWHERE}/{self.savepoint}")

    def whole(self, history: History) -> History:
        """As if the copy had been there from the first epoch on: it is judged by what follows from all of the input."""
        before = replace(history, planned={at: ends for at, ends in self.past.planned.items() if at <= self.upto})
        made = {epoch: [Row(*row, epoch, 0, 1) for row in rows] for epoch, rows in expected(before).items() if rows}
        counts = Counter({epoch: len(rows) for epoch, rows in made.items()})
        everywhere = dict.fromkeys(history.sinks, 0)
        lines = [
            line
            if line.epoch > self.upto
            else LedgerLine(line.epoch, 0, "done", dict.fromkeys(everywhere, counts[line.epoch]), {}, line.skipped)
            for line in history.ledger
        ]
        rows = [row for epoch in sorted(made) for row in made[epoch]]
        sinks = {
            sink: {
                place: (*(row for row in rows if len(places) == 1 or row.key % len(places) == place[1]), *found)
                for place, found in places.items()
            }
            for sink, places in history.sinks.items()
        }
        return replace(history, sinks=sinks, ledger=tuple(lines), group=history.group or None)


class Copies:
    """Of one simulated pipeline."""

    def __init__(self, simulation: "Simulation") -> None:
        self._simulation = simulation
        self._made = 0

    def make(self, argument: int) -> str:
        """Run one to its end; in words what became of it."""
        original = self._simulation
        if original.world.people.unrepaired:
            return "not while something is damaged"
        fresh = original.world.people.doors.save() if argument // 4 % 2 or not original.savepoint else ""
        if not original.savepoint:
            return fresh  # why there is none
        if original.broker is not None:
            original.release()  # nobody who waits for end markers would let time pass for the copy
        self._made += 1
        copied, query = self._copied()
        world = World(self._schedule(argument), story=original.world.story, number=self._made)
        for name, data in self._savepoint().items():
            world.disk.put(name, data)
            world.disk.keep(name)
        world.people.query = query
        run = type(original)(world, original.patches, copied).run()
        for checker, lines in run.violations.items():
            original.broken.setdefault(checker, []).extend(f"copy {copied.pipeline}: {line}" for line in lines)
        return f"{copied.pipeline} is a copy from epoch {copied.upto + 1} on; the original goes on"

    def _copied(self) -> tuple[Copied, int]:
        """And which query it runs: the savepoint's."""
        original = self._simulation
        saved = load(Place.within(Home(original.world.quiet_mount(), "home", "home"), original.savepoint))
        lineages, name = original.lineages(), f"copy-{self._made}"
        upto = saved.epoch + lineages.shift_of(saved.lineage)
        copied = Copied(name, f"out-of-{name}", original.savepoint, lineages.as_past, upto, original.broker)
        return copied, int(saved.shape == shape_of(1))

    def _savepoint(self) -> Mapping[str, bytes]:
        original, inside = self._simulation, f"{SAVEPOINTS}/{self._simulation.savepoint}/"
        files = original.world.disk.files
        return {
            f"{ELSEWHERE}/{name.removeprefix(f'{SAVEPOINTS}/')}": data
            for name, data in files.items()
            if name.startswith(inside)
        }

    def _schedule(self, argument: int) -> Schedule:
        was = self._simulation.world.schedule
        random = Random(f"{was.seed} {argument}")  # noqa: S311 - a seed replays a failure
        faults = [
            Fault(int(random.random() * 80), random.choice(FAULTS), int(random.random() * 64))
            for _ in range(argument % 4)
        ]
        return replace(was, faults=tuple(sorted(faults)), retain="always", waits=False)
