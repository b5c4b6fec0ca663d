"""One schedule from beginning to end: builds the world, runs it, reads it, and lets the checkers judge."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onceward.epoch import deeds
from onceward.epoch.contract import Guarantee
from onceward.epoch.home import Home
from onceward.epoch.term import Holder
from onceward.errors import HomeMismatch, SavepointUnusable
from onceward.kafka import marker as markers
from onceward.proof.checkers import judge, together
from onceward.proof.history import Began, History, LogBatch, Observed, Part, Place, Row
from onceward.proof.simulation import state
from onceward.proof.simulation.broker import Broker
from onceward.proof.simulation.copies import Copied, Copies
from onceward.proof.simulation.damage import Damages
from onceward.proof.simulation.disk import Mount
from onceward.proof.simulation.driver import PIPELINE, Life, Site, save
from onceward.proof.simulation.engine import Engine, began, counts_of
from onceward.proof.simulation.kafka_sink import PARTITIONS, TOPIC, PlainKafkaSink, SimulatedKafkaSink
from onceward.proof.simulation.lineages import NOTHING, Lineages
from onceward.proof.simulation.looking import broken_savepoints, parts_of, raw, rows_of, still_open, still_staged
from onceward.proof.simulation.partition import PartitionLog
from onceward.proof.simulation.patching import Patches, patched
from onceward.proof.simulation.people import Doors
from onceward.proof.simulation.ports import holder_of
from onceward.proof.simulation.schedule import Schedule
from onceward.proof.simulation.store import PlainSink, Store, StoreSink
from onceward.proof.simulation.wire import MemoryWire
from onceward.proof.simulation.world import GONE, Driver, World
from onceward.savepoint.creating import create

if TYPE_CHECKING:
    from onceward.epoch.contract import TwoPhaseCommitSink


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

    def __init__(self, world: World, patches: Patches, copied: Copied | None = None) -> None:
        """`copied`: this is a copy of another pipeline, in a home of its own."""
        schedule, self.world = world.schedule, world
        self.patches, self.copied = patches, copied
        self.pipeline, self.topic = (copied.pipeline, copied.topic) if copied is not None else (PIPELINE, TOPIC)
        self.engine = Engine(schedule.seed, schedule.epochs, schedule.sources)
        # A user may give a sink any name, also one that is a word of ours.
        names = ["ledger", "decider"][: schedule.shape.stores]
        self.stores: dict[str, Store] = {name: Store(name) for name in names}
        self.broker: Broker | None = copied.broker if copied is not None else None
        self._look: tuple[object, ...] = ()
        self._seen: dict[Place, tuple[int, tuple[Part, ...]]] = {}  # the last look, and how much there was then
        self.savepoint = ""  # the newest one's name
        self.broken: dict[str, list[str]] = {}  # promises that copies of it break
        self._shifts: dict[str, int] = {}
        self._changes_sinks = any(fault.kind == "sinks" for fault in schedule.faults)
        world.body, world.saver = self._drive, self._make
        world.observe = self.observe
        world.finished = self._finished
        self._damages = Damages(self)
        world.damage, world.forgot = self._damages.do, lambda: self._damages.forgot
        world.people.doors = Doors(
            save=self._save,
            copy=Copies(self).make,
            has_savepoint=lambda: self.savepoint != "",
            repair=self._damages.repair,
            finished=self._finished,
            choose_sinks=self._choose_sinks,
            sinks_of_last=self._sinks_of_last,
        )
        if schedule.shape.kafka:
            broker = self.broker = self.broker or Broker(schedule.max_producer_epoch)
            broker.create(self.topic, PARTITIONS)
            world.time_out = lambda: "the broker aborts the open transaction" if broker.time_out(self.pipeline) else ""
            world.hold, world.release = self._hold, self.release

    def run(self) -> Run:
        """Everything, to the end."""
        with patched({**self._processes(), **self.patches}):
            self.world.run()
        world = self.world
        history, found = self.end()
        return Run(world.schedule, history, found, world.clock, len(world.drivers), frozenset(world.reached))

    def end(self) -> tuple[History, Mapping[str, list[str]]]:
        """Nothing happens any more: what can be read, and which promises it breaks."""
        if self.broker is not None:
            self.release()
        self._damages.restore_logs()
        self.observe()
        history = self.read()
        if self.copied is not None:
            history = self.copied.whole(history)
        return history, together(judge(history), self.broken)

    def observe(self) -> None:
        """A look from outside; while something is damaged, what is seen proves nothing."""
        if self.world.people.unrepaired and not self._damages.over():
            return
        visible: dict[str, dict[Place, tuple[Part, ...]]] = {
            name: {(name, 0): self._parts((name, 0), len(store.rows), store)} for name, store in self.stores.items()
        }
        settled, group, marker = True, None, None
        if self.broker is not None:
            settled = self.broker.settled
            # A log's records change their fate only when an end marker is appended.
            visible["kafka"] = {place: self._parts(place, len(log.batches), log) for place, log in self._logs().items()}
            held = self.broker.groups.get(self.pipeline)
            if held is not None and held.committed:
                group = self._group()
                found = markers.newest(text for _, text in held.committed.values())
                marker = found.epoch + self.shift(found.lineage) if found is not None else None
        look = (settled, self._decided(marker), visible, group, marker)
        if look != self._look:  # else it would show nothing that the one before did not
            self._look = look
            self.world.events.append(Observed(self.world.clock, *look))

    def read(self) -> History:
        """Everything that can be found out at the end."""
        storage = self._quiet_mount()
        lineages = self.lineages()
        sinks: dict[str, dict[Place, tuple[Row, ...]]] = {
            name: {(name, 0): tuple(store.rows)} for name, store in self.stores.items()
        }
        log: dict[Place, tuple[LogBatch, ...]] = {}
        group = None
        if self.broker is not None:
            sinks["kafka"] = {place: tuple(rows_of(log)) for place, log in self._logs().items()}
            log = {place: raw(log) for place, log in self._logs().items()}
            group = self._group() if not self.world.people.unrepaired else None
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
            guarantee=self.world.schedule.guarantee,
            expected=self._expected(),
            savepoints=(*self.world.spoilt, *broken_savepoints(storage, self.world.disk.files, self.engine, lineages)),
        )

    def _drive(self, driver: Driver) -> None:
        exactly_once = self.world.schedule.guarantee is Guarantee.EXACTLY_ONCE
        of_store = StoreSink if exactly_once else PlainSink
        there = self.world.people.sinks
        sinks: dict[str, TwoPhaseCommitSink] = {
            name: of_store(self.world, store) for name, store in self.stores.items() if there is None or name in there
        }
        if self.broker is not None and (there is None or "kafka" in there):
            of_kafka = SimulatedKafkaSink if exactly_once else PlainKafkaSink
            sinks["kafka"] = of_kafka(self.world, MemoryWire(self.world, self.broker), self.topic)
        original = self.copied.place if self.copied is not None else lambda _: None
        site = Site(self.world, self.engine, self.pipeline, self.lineages, lambda: self.savepoint, original)
        Life(site, driver, sinks).live()

    def _make(self, driver: Driver) -> None:
        save(self.world, f"made-by-{driver.number}")

    def _processes(self) -> Patches:
        """Who this process is, and who is provably gone: only one of the same machine."""

        def this_process(_: str, term: int) -> Holder:
            return holder_of(self.pipeline, self.world.current.number, term)

        def is_gone(holder: Holder) -> bool:
            drivers = self.world.drivers
            here = holder_of(self.pipeline, self.world.current.number, 0).machine == holder.machine
            return here and drivers[holder.pid - 1].state is GONE

        return {"onceward.savepoint.creating:this_process": this_process, "onceward.holding:is_gone": is_gone}

    def _choose_sinks(self, number: int) -> frozenset[str]:
        """Some of them; one at least."""
        names = [*self.stores, *(["kafka"] if self.broker is not None else [])]
        mask = 1 + number % (2 ** len(names) - 1)
        return frozenset(name for at, name in enumerate(names) if mask >> at & 1)

    def _sinks_of_last(self) -> frozenset[str]:
        """Of the driver that recovered last."""
        began = [event for event in self.world.events if isinstance(event, Began)]
        return max(began, key=lambda event: event.term).sinks if began else frozenset()

    def _group(self) -> dict[Place, int] | None:
        """The group's offsets. Of topics of one name in two clusters it knows one place, which says nothing here."""
        assert self.broker is not None
        held = self.broker.groups.get(self.pipeline)
        if self.engine.sources > 1:
            return None
        return {place: offset for place, (offset, _) in held.committed.items()} if held is not None else {}

    def _expected(self) -> frozenset[str]:
        """What people may be told for what they do."""
        told = {"sinks": {"ConfigurationError"}, "query": {"QueryChanged"}, "skip": {"SkipRefused"}}
        found = {how for fault in self.world.schedule.faults for how in told.get(fault.kind, ())}
        return frozenset(found | ({"CheckpointDropped"} if self.world.schedule.retain != "always" else set()))

    def _state(self, lineages: Lineages) -> Mapping[int, int] | None:
        """At the end, unless it was dropped; of what came before a reset the state knows nothing, so that is added."""
        shift = lineages.in_force
        if deeds.ended(self._quiet_mount()) is not None:
            return None
        found = counts_of(state.read(self.world.disk.files, lineages.folder, self.engine.epochs - shift))
        begins = {0: 0, 1: 0, **began(lineages.checkpoint)}
        return self.engine.counted(begins, lineages.passed()) + Counter(found)

    def lineages(self) -> Lineages:
        """As they are now."""
        return Lineages(self._quiet_mount(), self.copied.past if self.copied is not None else NOTHING)

    def shift(self, lineage: str) -> int:
        if lineage not in self._shifts:
            self._shifts[lineage] = self.lineages().shift_of(lineage)
        return self._shifts[lineage]

    def _finished(self) -> bool:
        lineages = self.lineages()
        last = self.engine.epochs - 1 - lineages.in_force
        if (ended := deeds.ended(self._quiet_mount())) is not None:
            return ended.epoch >= last
        return last < 0 or f"{lineages.folder}/commits/{last}" in self.world.disk.files

    def _save(self) -> str:
        """All at once: a savepoint pins what it copies. None if nothing is finished yet."""
        try:
            made = create(
                Home(self._quiet_mount(), "home", "home"),
                now=lambda: "",
                sleep=lambda _: None,
                fresh=self.world.fresh_id,
            )
        except (SavepointUnusable, HomeMismatch) as reason:  # too early
            return str(reason)
        self.savepoint = made.name
        return made.name

    def _hold(self) -> bool:
        assert self.broker is not None
        was, self.broker.held = self.broker.held, True
        return not was

    def release(self) -> None:
        assert self.broker is not None
        self.broker.held = False
        self.broker.settle()

    def _parts(self, place: Place, size: int, where: Store | PartitionLog) -> tuple[Part, ...]:
        """What is visible in a place; rows and logs only grow, so that one of the same size is the same."""
        seen = self._seen.get(place)
        if seen is None or seen[0] != size:
            seen = self._seen[place] = (size, parts_of(rows_of(where)))
        return seen[1]

    def _decided(self, marker: int | None) -> frozenset[int]:
        if self.broker is not None and not self._changes_sinks:
            return frozenset(range(marker + 1)) if marker is not None else frozenset()
        by_marker = range(marker + 1) if marker is not None else range(0)
        return self.lineages().decided(self.world.disk.files) | frozenset(by_marker)

    def _left_behind(self) -> list[str]:
        there = self._sinks_of_last()
        found = still_staged(store for name, store in self.stores.items() if name in there)
        if self.broker is not None and "kafka" in there:
            found += still_open(self.pipeline, self.broker.transactions.get(self.pipeline), self._logs())
        return found

    def _logs(self) -> Mapping[Place, PartitionLog]:
        """Of its own topic."""
        assert self.broker is not None
        return {place: log for place, log in self.broker.logs.items() if place[0] == self.topic}

    def _quiet_mount(self) -> Mount:
        return self.world.quiet_mount()


def simulate(schedule: Schedule, patches: Patches | None = None, story: list[str] | None = None) -> Run:
    """Run a schedule; `patches` replaces pieces of the production code, `story` is filled with what happens."""
    return Simulation(World(schedule, story=story), patches or {}).run()
