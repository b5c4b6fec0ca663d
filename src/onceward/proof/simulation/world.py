"""The world that drivers run in: whose turn it is, what goes wrong now, and what is still on its way.

One counter of steps, one list of faults. Every call of a driver to disk, store or broker passes through `step`; when
the counter reaches a fault, it happens there. So a schedule replays exactly.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from onceward.proof.history import Began, Damaged, Ended, Event
from onceward.proof.simulation.disk import Disk, Mount
from onceward.proof.simulation.fibres import Killed, fibre
from onceward.proof.simulation.people import People
from onceward.proof.simulation.schedule import CONTROL, DAMAGE, OTHERWISE, Fault, Schedule

BEGAN: Final = 7_331.25  # what the clock says at first: no real one says zero, which code may take for "not yet"
MAX_DRIVERS: Final = 14
MAX_STEPS: Final = 6_000
LATER: Final = 20  # steps until somebody who wants to restore looks again
TRANSACTION_TIMEOUT_S: Final = 60.0  # of waiting, all drivers together

READY, PARKED, GONE = "ready", "parked", "gone"


class Driver:
    """One process of the pipeline, or one that makes a savepoint of it."""

    def __init__(self, number: int, body: Callable[["Driver"], None]) -> None:
        self.number = number
        self.state = READY
        self.term = 0
        self.since = 0  # how many events there were when it started
        self.stopping = False  # asked to
        self.saves = False  # so that a savepoint can be made
        self.fibre = fibre(lambda: body(self))


class World:
    """Everything but the pieces that are far away."""

    def __init__(self, schedule: Schedule, *, story: list[str] | None = None, number: int = 0) -> None:
        """`number`: of a copy of a pipeline, which has a world of its own."""
        self.schedule, self.number = schedule, number
        self.disk = Disk()
        self.clock = 0
        self.now = BEGAN
        self.events: list[Event] = []
        self.drivers: list[Driver] = []
        self.story = story
        self.reached: set[tuple[str, str]] = set()  # fault and step at which it happened
        self.body: Callable[[Driver], None] = lambda _: None
        self.saver: Callable[[Driver], None] = lambda _: None
        self.people = People()
        self.spoilt: list[str] = []  # savepoints that were promised, and are none
        self.observe: Callable[[], None] = lambda: None
        self.time_out: Callable[[], str] = lambda: ""  # what time passing does to Kafka's transactions
        self.hold: Callable[[], bool] = lambda: False
        self.release: Callable[[], None] = lambda: None
        self.finished: Callable[[], bool] = lambda: False
        self.damage: Callable[[str], str] = lambda _: ""  # does it; what was done, in words
        self.forgot: Callable[[], tuple[str, int] | None] = lambda: None  # by what was just damaged
        self._faults = list(reversed(schedule.faults))
        self._late: list[tuple[int, int, Callable[[], object], str]] = []
        self._armed: dict[str, int] = {}
        self._current: Driver | None = None
        self._preferred: Driver | None = None
        self._numbers = 0
        self._waited = 0.0
        self._due = 0  # the next step at which anything but a driver's own doing happens
        self._set_due()

    def step(self, what: str, about: object = "") -> None:
        """Somebody else may act here, or something go wrong."""
        if self._current is not None and self._current.state is GONE:  # what is dead cleans nothing up
            raise Killed
        self.clock = clock = self.clock + 1
        if self.story is not None:
            self.tell(f"{what} {about}")
        if clock >= self._due:
            self._happen(what)
            if clock > MAX_STEPS:
                raise Killed

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self._waited += seconds
        if self._waited > TRANSACTION_TIMEOUT_S:
            self._waited = 0.0
            self.time_out()
        self.step("wait", f"{seconds} s" if self.story is not None else "")

    def fresh_id(self) -> str:
        """For a savepoint; that of another world never has it."""
        return f"{self.number:02x}{self.clock:06x}"

    def time(self) -> float:
        """The clock that deadlines are measured with."""
        return self.now

    def mount(self) -> Mount:
        """The disk, for the driver that runs."""
        return Mount(self.disk, self._enter_disk, self.step)

    def quiet_mount(self) -> Mount:
        """The disk, for whoever only looks: nothing happens meanwhile."""
        return Mount(self.disk, lambda *_: "", lambda *_: None)

    def enter_sink(self, what: str, about: str) -> str:
        """A step at a store; what is to go wrong with it."""
        self.step(what, about)
        return self._take("sink-before", "sink-after") if self._armed else ""

    def enter_network(self, what: str, about: object) -> tuple[str, int]:
        """A step at the network; what is to go wrong with this request, and for how long."""
        self.step(what, about)
        if self._armed:
            for kind in ("lose-request", "lose-answer", "delay", "duplicate"):
                if kind in self._armed:
                    return kind, self._armed.pop(kind)
        return "", 0

    def task_dies(self, about: object) -> int | None:
        """Whether a task dies here, and after how many steps its zombie writes."""
        self.step("task", about)
        return self._armed.pop("task", None) if self._armed else None

    def later(self, steps: int, act: Callable[[], object], says: str, said: object = None) -> None:  # noqa: ARG002
        """Something is on its way. `said` is for worlds that compare what is."""
        self._numbers += 1
        self._late.append((self.clock + 1 + steps, self._numbers, act, says))
        self._late.sort(reverse=True)
        self._set_due()

    def heard(self, said: object, answer: object) -> None:
        """An answer of the broker is on its way back, for worlds that keep count."""

    def doze(self, seconds: float) -> None:
        """Whoever waits for somebody else lets others run."""
        self.sleep(seconds)
        others = [driver for driver in self.drivers if driver.state is READY and driver is not self._current]
        if others:
            self._preferred = others[-1]
            self.current.fibre.give_way()

    def began(self, term: int, after_epoch: int, sinks: frozenset[str]) -> None:
        """The driver that runs has recovered."""
        self.events.append(Began(self.current.number, term, after_epoch, sinks))

    @property
    def current(self) -> Driver:
        """Whose turn it is."""
        assert self._current is not None
        return self._current

    def tell(self, text: str) -> None:
        """A line of the story."""
        if self.story is not None:
            who = f"driver {self._current.number}" if self._current is not None else "world"
            term = f" (term {self._current.term})" if self._current is not None and self._current.term else ""
            where = f"copy {self.number}, " if self.number else ""
            self.story.append(f"{self.clock:4d}  {where}{who}{term}: {text}")

    def run(self) -> None:
        """Until the input is processed and everybody has ended; then one more start, which finds all in order.

        Where the newest driver was also the last to end, and nothing was on its way, only some schedules have that.
        """
        last = False
        while (driver := self._next()) is not None or not last:
            if driver is None:
                if self._in_order() and self.schedule.seed % 4:
                    break
                last = True
                self._deliver_all()
                self._faults.clear()
                self._armed.clear()
                self.people.want_nothing()
                driver = self._start()
            self._current = driver
            driver.fibre.resume()
            self._current = None
            if not driver.fibre.alive:
                driver.state = GONE
            self._bury()
        self._deliver_all()

    def _in_order(self) -> bool:
        """Since the newest driver started, nobody else was there, and it has finished."""
        newest = max(self.drivers, key=lambda driver: driver.term)
        ends = [event for event in self.events[newest.since :] if isinstance(event, Ended)]
        has_run = any(isinstance(event, Began) for event in self.events[newest.since :])  # else it has reset the home
        return has_run and ends == [Ended(newest.number, "finished")] and not self._late and not self.people.unrepaired

    def ended(self, how: str, says: str = "") -> None:
        """The driver that runs stops by itself."""
        self.current.state = GONE
        self.tell(f"ends: {how} {says}")
        self.events.append(Ended(self.current.number, how, says))
        self.people.ended(how)

    def _next(self) -> Driver | None:
        preferred, self._preferred = self._preferred, None
        if preferred is not None and preferred.state is READY:
            return preferred
        for driver in reversed(self.drivers):
            if driver.state is READY:
                return driver
        if self.clock > MAX_STEPS:
            return None
        if (self.people.once_more or not self.finished()) and len(self.drivers) < MAX_DRIVERS:
            self.people.once_more = False
            return self._start()
        for driver in self.drivers:
            if driver.state is PARKED:
                self._wake(driver)
                return driver
        return None

    def _start(self, body: Callable[[Driver], None] | None = None) -> Driver:
        driver = Driver(len(self.drivers) + 1, body or self.body)
        driver.since = len(self.events)
        self.drivers.append(driver)
        if self.story is not None:
            self.tell(f"driver {driver.number} starts{' to make a savepoint' if body else ''}")
        return driver

    def _wake(self, driver: Driver) -> None:
        driver.state = READY
        if self.story is not None:
            self.tell(f"driver {driver.number} wakes")

    def _bury(self) -> None:
        for driver in self.drivers:
            if driver.state is GONE and driver.fibre.alive:
                self._current = driver
                driver.fibre.kill()
        self._current = None

    def _happen(self, what: str) -> None:
        while self._late and self._late[-1][0] <= self.clock:
            self._deliver()
        give_way = False
        while self._faults and self._faults[-1].step <= self.clock:
            if not self._faults[-1].fits(what, self.clock):
                break
            fault = self._faults.pop()
            self.reached.add((fault.kind, what))
            if fault.kind in CONTROL:
                self.observe()
                give_way = self._control(fault) or give_way
            else:
                self._befall(fault)
        self._set_due()
        if give_way:
            assert self._current is not None
            self._current.fibre.give_way()

    def _befall(self, fault: Fault) -> None:
        """What happens to others than the drivers."""
        if fault.kind == "save":
            self.tell(f"!! somebody takes a savepoint: {self.people.doors.save()}")
        elif fault.kind == "copy":
            self.tell("!! somebody makes a copy of the pipeline")
            self.tell(f"!! {self.people.doors.copy(fault.argument)}")
        elif fault.kind in DAMAGE:
            if done := self.damage(fault.kind):
                self.people.unrepaired = True
                self.tell(f"!! {done}")
                self.events.append(Damaged(fault.kind, self.forgot()))
        elif fault.kind == "timeout":
            self.tell(f"!! time passes: {self.time_out() or 'no transaction is open'}")
        elif fault.kind == "hold":
            if self.hold():
                self.tell("!! the broker is slow to write end markers")
                self.later(fault.argument % 24, self.release, "the broker writes end markers again")
        else:
            self._armed[fault.kind] = fault.argument

    def _control(self, fault: Fault) -> bool:
        current = self._current
        assert current is not None
        if fault.kind == "kill":
            self.tell("!! is killed")
            self._die(current)
            self._set_due()
            raise Killed
        if fault.kind == "power":
            self.tell("!! the power goes: every driver dies, unsynced writes may be lost")
            for driver in self.drivers:
                if driver.state is not GONE:
                    self._die(driver)
            self.disk.cut_power(Random(fault.argument))  # noqa: S311 - a seed replays a failure
            self._set_due()
            raise Killed
        if fault.kind == "pause":
            self.tell("!! is paused")
            current.state = PARKED
            return True
        if fault.kind == "stop":
            self.tell(f"!! is asked to stop{', to be saved' if fault.argument // 4 % 2 else ''}")
            current.stopping, current.saves = True, bool(fault.argument // 4 % 2)
            return False
        if fault.kind in OTHERWISE:
            return self._start_otherwise(current, fault)
        return self._start_beside(fault.kind) if fault.kind in {"start", "saver"} else self._go_on_with(current, fault)

    def _start_beside(self, kind: str) -> bool:
        if len(self.drivers) >= MAX_DRIVERS // 2:
            return False
        self.tell(f"!! somebody starts {'another driver' if kind == 'start' else 'to make a savepoint'}")
        self._preferred = self._start(self.saver if kind == "saver" else None)
        return True

    def _go_on_with(self, current: Driver, fault: Fault) -> bool:
        state = PARKED if fault.kind == "resume" else READY
        others = [driver for driver in self.drivers if driver.state is state and driver is not current]
        if not others:
            return False
        self._preferred = others[fault.argument % len(others)]
        if state is PARKED:
            self._wake(self._preferred)
        self.tell(f"!! driver {self._preferred.number} goes on instead")
        return True

    def _start_otherwise(self, current: Driver, fault: Fault) -> bool:
        """This one is dead, or sleeps and does not know."""
        wanted = self.people.want(fault.kind, fault.argument)
        if not wanted:  # later then
            self._faults.append(fault._replace(step=self.clock + LATER))
            self._faults.sort(reverse=True)
            return False
        self.tell(f"!! somebody is about to {wanted}")
        if fault.argument // 8 % 2:
            current.state = PARKED
            return True
        self._die(current)
        self._set_due()
        raise Killed

    def _die(self, driver: Driver) -> None:
        driver.state = GONE
        self.events.append(Ended(driver.number, "killed"))

    def _deliver(self) -> None:
        _, _, act, says = self._late.pop()
        self.tell(f"!! arrives late: {says}")
        act()

    def _deliver_all(self) -> None:
        while self._late:
            self._deliver()
        self._set_due()

    def _set_due(self) -> None:
        due = self._faults[-1].step if self._faults else MAX_STEPS
        self._due = min(due, self._late[-1][0], MAX_STEPS) if self._late else min(due, MAX_STEPS)

    def _take(self, *kinds: str) -> str:
        for kind in kinds:
            if kind in self._armed:
                del self._armed[kind]
                self.tell(f"!! {kind}")
                return kind
        return ""

    def _enter_disk(self, what: str, about: str) -> str:
        self.step(what, about)
        if not self._armed:
            return ""
        kind = self._take("disk-before", "disk-after") or (self._take("disk-echo") if what == "claim" else "")
        if kind == "disk-before":
            raise OSError(f"{about}: the disk said no")
        return kind
