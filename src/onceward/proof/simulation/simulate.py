"""One schedule from beginning to end: builds the world, runs it, reads it, and lets the checkers judge."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onceward.epoch.home import Home
from onceward.errors import HomeMismatch, SavepointUnusable
from onceward.kafka import marker as markers
from onceward.proof.checkers import judge
from onceward.proof.history import History, LogBatch, Observed, Part, Place, Row
from onceward.proof.simulation.broker import Broker
from onceward.proof.simulation.damage import Damages
from onceward.proof.simulation.disk import Mount
from onceward.proof.simulation.driver import PIPELINE, Parts, drive
from onceward.proof.simulation.engine import Engine, began, state_of
from onceward.proof.simulation.kafka_sink import PARTITIONS, SimulatedKafkaSink
from onceward.proof.simulation.kafka_sink import TOPIC as OUT
from onceward.proof.simulation.lineages import Lineages
from onceward.proof.simulation.partition import PartitionLog
from onceward.proof.simulation.schedule import Schedule
from onceward.proof.simulation.store import Store, StoreSink
from onceward.proof.simulation.wire import MemoryWire
from onceward.proof.simulation.world import Driver, World
from onceward.savepoint.creating import create
from onceward.savepoint.place import Place as SavepointPlace

if TYPE_CHECKING:
    from onceward.epoch.contract import TwoPhaseCommitSink
    from onceward.epoch.storage import Storage


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a schedule."""

    schedule: Schedule
    history: History
    violations: Mapping[str, list[str]]
    steps: int
    drivers: int
    reached: frozenset[tuple[str, str]]


class Simulation:
    """A world with a pipeline in it."""

    def __init__(self, world: World, parts: Parts) -> None:
        schedule, self.world = world.schedule, world
        self.parts = parts
        self.engine = Engine(schedule.seed, schedule.epochs)
        # A user may give a sink any name, also one that is a word of ours.
        names = ["ledger", "decider"][: schedule.shape.stores]
        self.stores: dict[str, Store] = {name: (parts.store or Store)(name) for name in names}
        self.broker: Broker | None = None
        self._look: tuple[object, ...] = ()
        self._seen: dict[Place, tuple[int, tuple[Part, ...]]] = {}  # the last look, and how much there was then
        self.savepoint = ""  # the newest one's name
        self._shifts: dict[str, int] = {}
        world.body = self._drive
        world.save, world.newest_savepoint = self._save, self._newest_savepoint
        world.observe = self.observe
        world.finished = self._finished
        self._damages = Damages(self)
        world.damage, world.repair = self._damages.do, self._damages.repair
        if schedule.shape.kafka:
            broker = self.broker = (parts.broker or Broker)(schedule.max_producer_epoch)
            broker.create(OUT, PARTITIONS)
            world.time_out = lambda: "the broker aborts the open transaction" if broker.time_out(PIPELINE) else ""
            world.hold, world.release = self._hold, self._release

    def run(self) -> Run:
        """Everything, to the end."""
        self.world.run()
        world = self.world
        history, found = self.end()
        return Run(world.schedule, history, found, world.clock, len(world.drivers), frozenset(world.reached))

    def end(self) -> tuple[History, Mapping[str, list[str]]]:
        """Nothing happens any more: what can be read, and which promises it breaks."""
        if self.broker is not None:
            self._release()
        self._damages.restore_logs()
        self.observe()
        history = self.read()
        return history, judge(history)

    def observe(self) -> None:
        """A look from outside; while something is damaged, what is seen proves nothing."""
        if self.world.unrepaired and not self._damages.over():
            return
        visible: dict[str, dict[Place, tuple[Part, ...]]] = {
            name: {(name, 0): self._parts((name, 0), len(store.rows), store)} for name, store in self.stores.items()
        }
        settled, group, marker = True, None, None
        if self.broker is not None:
            settled = self.broker.settled
            # A log's records change their fate only when an end marker is appended.
            visible["kafka"] = {
                place: self._parts(place, len(log.batches), log) for place, log in self.broker.logs.items()
            }
            held = self.broker.groups.get(PIPELINE)
            if held is not None and held.committed:
                group = {place: offset for place, (offset, _) in held.committed.items()}
                found = markers.newest(text for _, text in held.committed.values())
                marker = found.epoch + self._shift(found.lineage) if found is not None else None
        look = (settled, self._decided(marker), visible, group, marker)
        if look != self._look:  # else it would show nothing that the one before did not
            self._look = look
            self.world.events.append(Observed(self.world.clock, *look))

    def read(self) -> History:
        """Everything that can be found out at the end."""
        storage = self._quiet_mount()
        lineages = Lineages(storage)
        sinks: dict[str, dict[Place, tuple[Row, ...]]] = {
            name: {(name, 0): tuple(store.rows)} for name, store in self.stores.items()
        }
        log: dict[Place, tuple[LogBatch, ...]] = {}
        group = None
        if self.broker is not None:
            sinks["kafka"] = {place: tuple(_rows(log)) for place, log in self.broker.logs.items()}
            log = {place: _raw(self.broker, place) for place in self.broker.logs}
            held = self.broker.groups.get(PIPELINE)
            group = {place: offset for place, (offset, _) in held.committed.items()} if held is not None else {}
        return History(
            events=tuple(self.world.events),
            input=self.engine.input,
            planned=lineages.planned(),
            sinks=sinks,
            log=log,
            group=group,
            ledger=lineages.ledger(),
            decisions=lineages.decisions(self.world.disk.files),
            state=self._state(lineages),
            left_behind=tuple(self._left_behind()),
        )

    def _drive(self, driver: Driver) -> None:
        sinks: dict[str, TwoPhaseCommitSink] = {
            name: (self.parts.store_sink or StoreSink)(self.world, store) for name, store in self.stores.items()
        }
        if self.broker is not None:
            kind = self.parts.kafka_sink or SimulatedKafkaSink
            arguments = (self.parts.transactor,) if self.parts.transactor is not None else ()
            sinks["kafka"] = kind(self.world, MemoryWire(self.world, self.broker), *arguments)
        drive(self.world, driver, self.parts, self.engine, sinks)

    def _state(self, lineages: Lineages) -> Mapping[int, int]:
        """At the end; of what came before a reset the state knows nothing, so that is added."""
        shift = lineages.in_force
        found = state_of(self.world.disk.files.get(f"{lineages.folder}/state/{self.engine.epochs - shift}"))
        if not shift:
            return found
        return self.engine.counted(began(lineages.checkpoint)) + Counter(found)

    def _shift(self, lineage: str) -> int:
        if lineage not in self._shifts:
            self._shifts[lineage] = Lineages(self._quiet_mount()).shift_of(lineage)
        return self._shifts[lineage]

    def _finished(self) -> bool:
        lineages = Lineages(self._quiet_mount())
        last = self.engine.epochs - 1 - lineages.in_force
        return last < 0 or f"{lineages.folder}/commits/{last}" in self.world.disk.files

    def _save(self) -> str:
        """All at once: a savepoint pins what it copies. None if nothing is finished yet."""
        try:
            made = create(
                Home(self._quiet_mount(), "home", "home"),
                now=lambda: "",
                sleep=lambda _: None,
                fresh=lambda: f"{self.world.clock:08x}",
            )
        except (SavepointUnusable, HomeMismatch) as reason:  # too early
            return str(reason)
        self.savepoint, self.world.saved = made.name, True
        return made.name

    def _newest_savepoint(self, storage: "Storage") -> SavepointPlace | None:
        """What the person who starts this driver restores, if anything; once."""
        asked, self.world.restoring = self.world.restoring and self.savepoint != "", False
        return SavepointPlace.within(Home(storage, "home", "home"), self.savepoint) if asked else None

    def _hold(self) -> bool:
        assert self.broker is not None
        was, self.broker.held = self.broker.held, True
        return not was

    def _release(self) -> None:
        assert self.broker is not None
        self.broker.held = False
        self.broker.settle()

    def _parts(self, place: Place, size: int, where: Store | PartitionLog) -> tuple[Part, ...]:
        """What is visible in a place; rows and logs only grow, so that one of the same size is the same."""
        seen = self._seen.get(place)
        if seen is None or seen[0] != size:
            seen = self._seen[place] = (size, _parts(_rows(where)))
        return seen[1]

    def _decided(self, marker: int | None) -> frozenset[int]:
        if self.broker is not None:
            return frozenset(range(marker + 1)) if marker is not None else frozenset()
        return Lineages(self._quiet_mount()).decided(self.world.disk.files)

    def _left_behind(self) -> list[str]:
        found = [f"{name} still has {which} staged" for name, store in self.stores.items() for which in store.staged]
        if self.broker is not None:
            found += [
                f"transaction of {name} is {held.state}"
                for name, held in self.broker.transactions.items()
                if held.state in {"ongoing", "committing", "aborting"}
            ]
            found += [
                f"{place}: readers stop at {log.stable} of {log.end}"
                for place, log in self.broker.logs.items()
                if log.stable != log.end
            ]
        return found

    def _quiet_mount(self) -> Mount:
        return self.world.quiet_mount()


def simulate(schedule: Schedule, parts: Parts | None = None, story: list[str] | None = None) -> Run:
    """Run a schedule; `parts` replaces pieces of the drivers, `story` is filled with what happens."""
    return Simulation(World(schedule, story=story), parts or Parts()).run()


def _rows(where: Store | PartitionLog) -> list[Row]:
    """What is visible in it."""
    if isinstance(where, Store):
        return where.rows
    return [row for batch in where.visible() for row in batch.rows]


def _parts(rows: list[Row]) -> tuple[Part, ...]:
    counts: dict[tuple[int, int, int], int] = {}
    for row in rows:
        which = row[3:]
        counts[which] = counts.get(which, 0) + 1
    return tuple(Part(*which, count) for which, count in counts.items())


def _raw(broker: Broker, place: Place) -> tuple[LogBatch, ...]:
    return tuple(
        LogBatch(
            stored.kind,
            stored.producer_id,
            stored.producer_epoch,
            stored.sequence,
            stored.count if stored.kind == "data" else 0,
            stored.rows[0].epoch if stored.kind == "data" else -1,
            stored.offset if stored.kind == "data" else -1,
        )
        for stored in broker.logs[place].batches
    )
