"""The world of the exhaustive search: one driver at a time, and every moment at which it could go another way.

A driver's *life* is run from a frozen world. At each request to the broker it may go otherwise: messages that are on
their way arrive first, or this request is itself delayed. Each such other way is noted, to be run as a life of its
own. And at each step that finds the world changed the driver could die: that needs no run, only the world as it is.
"""

import pickle
from collections.abc import Callable, Mapping
from itertools import permutations

from onceward.proof.checkers.ending import EXPECTED, no_false_alarm
from onceward.proof.history import Began, Ended, History, Observed
from onceward.proof.simulation.driver import PIPELINE
from onceward.proof.simulation.fibres import Killed
from onceward.proof.simulation.moments import CountedDisk, Message, Met, Other, Search, Start, digest
from onceward.proof.simulation.patching import Patches
from onceward.proof.simulation.schedule import Fault, Schedule
from onceward.proof.simulation.simulate import Simulation
from onceward.proof.simulation.world import BEGAN, MAX_DRIVERS, MAX_STEPS, TRANSACTION_TIMEOUT_S, Driver, World


class ModelWorld(World):
    """The world during one driver's life."""

    disk: CountedDisk
    model: "Model"
    search: Search
    start: Start

    def revive(self, start: Start, plan: tuple[Other, ...], disk: CountedDisk) -> None:
        """As it was at the start; `plan`: where this life goes otherwise."""
        self.start, self.disk, self.clock = start, disk, start.clock
        self.plan = {other.request: other for other in plan}
        self.planned = plan[-1].request if plan else -1
        self.pending, self.delays = start.pending, start.delays
        self.events, self.looks, self.faults = list(start.events), start.looks, start.faults
        self.requests = 0
        self.silent = ""  # the last request, if it had no answer
        self.answers = b""  # all that a driver learns which does not follow from its start and its own doing
        self.touched = 0  # calls to broker and stores
        self.now, self._waited = BEGAN, 0.0
        self._looked, self._could_die = -1, object()
        self._current = Driver(start.driver, self.body)

    def step(self, what: str, about: object = "") -> None:  # noqa: ARG002 - no story is told
        """A look, if something may have changed; and the driver could die here."""
        self.clock += 1
        if self.clock - self.start.clock > MAX_STEPS:
            raise Killed
        if self.touched != self._looked:
            self._looked = self.touched
            self.model.look()
        if self.start.crashes and self.requests > self.planned:  # else run before, up to where it goes otherwise
            moment = (self.disk.sum, self.touched, *self.model.planned())
            if moment != self._could_die:
                self._could_die = moment
                self.model.freeze(crash=Fault(self.clock, "kill"))

    def sleep(self, seconds: float) -> None:
        """Time passes only while somebody waits; who waits for very long has the broker end a transaction."""
        self.touched += self._waited + seconds > TRANSACTION_TIMEOUT_S
        super().sleep(seconds)

    def enter_sink(self, what: str, about: str) -> str:
        """Stores do not fail in the model."""
        self.step(what, about)
        self.touched += 1
        return ""

    def task_dies(self, about: object) -> int | None:
        self.step("task", about)
        return None

    def enter_network(self, what: str, about: object) -> tuple[str, int]:
        """A request: here a life may go another way."""
        self.step(what, about)
        number, self.requests = self.requests, self.requests + 1
        self.pending, gone = self.alive()
        self.faults += gone
        if number > self.planned:
            if not self.search.new(self.key(), self.start.crashes, self.delays):
                raise Met
            for other in self._others(number):
                self.search.other((*self.plan.values(), other), self.delays - other.delayed)
        self.touched += 1
        choice = self.plan.get(number)
        if choice is None:
            return "", 0
        self.deliver(choice.arrive)
        if not choice.delayed:
            return "", 0
        self.delays -= 1
        return "delay", 0

    def later(self, steps: int, act: Callable[[], object], says: str, said: object = None) -> None:  # noqa: ARG002
        self._break_silence(said)
        self.silent = repr(said)
        self.pending = (*self.pending, Message.of(said, self.clock, act))

    def heard(self, said: object, answer: object) -> None:
        """Word of the broker. Of a record batch nobody asks where it stands."""
        self._break_silence(said)
        self.answers = digest(self.answers, answer[0] if isinstance(answer, tuple) else answer)

    def _break_silence(self, said: object) -> None:
        """Who asks the same again after a silence is, once answered, where it would be without: it only waited."""
        if self.silent and self.silent != repr(said):
            self.answers = digest(self.answers, "silence")
        self.silent = ""

    def deliver(self, which: tuple[int, ...]) -> None:
        """They arrive, in this order."""
        for index in which:
            self.pending[index].act()
            self.touched += 1
            self.faults = (*self.faults, self.pending[index].arrives(self.clock))
            self.observe()
        self.pending = tuple(message for index, message in enumerate(self.pending) if index not in which)

    def alive(self) -> tuple[tuple[Message, ...], tuple[Fault, ...]]:
        """Of what is on its way, that which can still have an effect; the rest may as well arrive now.

        Once the broker has given out the next identity, it refuses records, marks and ends of this one for ever.
        """
        if not self.pending or self.model.broker is None:
            return self.pending, ()
        held = self.model.broker.transactions.get(PIPELINE)
        now = (held.producer_id, held.producer_epoch) if held is not None else (-1, -1)
        moot = [message.moot(now, self.model.broker) for message in self.pending]
        kept = tuple(message for message, gone in zip(self.pending, moot, strict=True) if not gone)
        return kept, tuple(
            message.arrives(self.clock) for message, gone in zip(self.pending, moot, strict=True) if gone
        )

    def key(self) -> bytes:
        """Where this life is. Two that are at the same place go on alike."""
        pending = [message.said for message in self.pending]
        mine = (self.start.key, self.answers, self.silent, int(self._waited))
        return digest(mine, self.model.state(), pending, sorted(self.looks))

    def _others(self, number: int) -> list[Other]:
        waiting = range(len(self.pending))
        orders = [order for size in range(len(waiting) + 1) for order in permutations(waiting, size)]
        delays = (False, True) if self.delays else (False,)
        return [Other(number, order, delayed) for order in orders for delayed in delays][1:]  # the first is this one


class Model(Simulation):
    """A pipeline whose world can be frozen and revived."""

    world: ModelWorld

    def __init__(self, schedule: Schedule, patches: Patches, search: Search) -> None:
        world = ModelWorld(schedule)
        super().__init__(world, patches)
        world.disk, world.model, world.search = CountedDisk(), self, search
        self.search = search
        self._far_away: tuple[int, bytes] = (-1, b"")
        self._sizes: list[object] = []

    def first(self, crashes: int, delays: int) -> Start:
        return Start(key=b"", frozen=self._freeze(), crashes=crashes, delays=delays)

    def live(self, start: Start, plan: tuple[Other, ...]) -> Mapping[str, list[str]]:
        """Run a driver to its end; which promises are broken, if it is the end of everything or unheard of."""
        self._revive(start, plan)
        driver = self.world._current  # noqa: SLF001 - the world's own kind
        assert driver is not None
        try:
            self._drive(driver)
        except Met:
            return {}
        except Killed:
            return {"progress": [f"driver {start.driver} made {MAX_STEPS} steps and did not end"]}
        ended = self.world.events[-1]
        assert isinstance(ended, Ended)
        if ended.how not in EXPECTED:
            return {"no-false-alarm": no_false_alarm(History(events=(ended,), input={}, planned={}, sinks={}))}
        if ended.how != "finished":
            if start.driver == MAX_DRIVERS:
                return {"progress": [f"{MAX_DRIVERS} drivers did not reach the end: {ended.how}, {ended.says}"]}
            self.freeze()
            return {}
        return self._after(start)

    def _after(self, start: Start) -> Mapping[str, list[str]]:
        """The input is processed. What is still on its way arrives during one more start, or then at last."""
        self.world.pending, gone = self.world.alive()
        self.world.faults += gone
        if not start.last:
            self.freeze(last=True)
            return {}
        if not self.world.pending:
            return self._judged()
        pending, events, looks, faults = self.world.pending, self.world.events, self.world.looks, self.world.faults
        frozen = self._freeze()
        for order in permutations(range(len(pending))):
            self._thaw(frozen)
            self.world.pending, self.world.events = pending, [*events]
            self.world.looks, self.world.faults = looks, faults
            self.world.deliver(order)
            self.freeze(last=True)
        return {}

    def _judged(self) -> Mapping[str, list[str]]:
        if not self.search.new(digest("end", self.state(), self._past()), 0, 0):
            return {}
        return self.end()[1]

    def look(self) -> None:
        """Observe, unless nothing can have become visible."""
        sizes: list[object] = [len(store.rows) for store in self.stores.values()]
        if self.broker is not None:
            sizes += [len(log.batches) for log in self.broker.logs.values()]
            sizes += [(held.state, held.producer_epoch) for held in self.broker.transactions.values()]
        if sizes != self._sizes:
            self._sizes = sizes
            self.observe()

    def observe(self) -> None:
        """A look, unless it shows what one before has shown."""
        world, before = self.world, len(self.world.events)
        super().observe()
        if len(world.events) > before:
            look = world.events[-1]
            assert isinstance(look, Observed)
            shown = digest(look.settled, sorted(look.decided), look.visible, look.group, look.marker)
            if shown in world.looks:
                world.events.pop()
            world.looks |= {shown}

    def planned(self) -> tuple[int]:
        """What the engine keeps outside its logs."""
        return (self.engine.plans,)

    def state(self) -> bytes:
        """Everything that outlives a driver."""
        world, engine = self.world, self.engine
        if self._far_away[0] != world.touched:
            stores = [(store.staged, store.rows, store.markers) for store in self.stores.values()]
            self._far_away = (world.touched, digest(stores, self.broker.state() if self.broker is not None else ()))
        return digest(world.disk.sum, engine.plans % 3, self._far_away[1])

    def freeze(self, *, crash: Fault | None = None, last: bool = False) -> None:
        """The next driver starts here, if none has started at the like of it."""
        world, before = self.world, self.world.start
        pending, gone = world.alive()
        crashes = before.crashes - (crash is not None)
        said = [message.said for message in pending]
        key = digest("start", self.state(), self._past(), said, before.driver, last)
        if self.search.new(key, crashes, world.delays):
            self.search.start(
                Start(
                    key=key,
                    frozen=self._freeze(),
                    driver=before.driver + 1,
                    clock=world.clock,
                    pending=pending,
                    crashes=crashes,
                    delays=world.delays,
                    last=last,
                    events=tuple(world.events),
                    looks=world.looks,
                    faults=(*world.faults, *gone, *((crash,) if crash is not None else ())),
                )
            )

    def _past(self) -> object:
        """Of what was, all that a checker compares with the end."""
        began = [(event.term, event.after_epoch) for event in self.world.events if isinstance(event, Began)]
        return sorted(self.world.looks), began

    def _freeze(self) -> bytes:
        engine = {"plans": self.engine.plans}
        stores = [store.__dict__ for store in self.stores.values()]
        broker = self.broker.__dict__ if self.broker is not None else {}
        return pickle.dumps((self.world.disk.__dict__, engine, stores, broker))

    def _thaw(self, frozen: bytes) -> CountedDisk:
        disk, engine, stores, broker = pickle.loads(frozen)  # noqa: S301 - our own
        self.engine.__dict__.update(engine)
        for store, was in zip(self.stores.values(), stores, strict=True):
            store.__dict__.update(was)
        if self.broker is not None:
            self.broker.__dict__.update(broker)
        self._seen.clear()
        self._look, self._far_away, self._sizes = (), (-1, b""), []
        found = CountedDisk()
        found.__dict__.update(disk)
        return found

    def _revive(self, start: Start, plan: tuple[Other, ...]) -> None:
        self.world.revive(start, plan, self._thaw(start.frozen))
