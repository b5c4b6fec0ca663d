"""One driver from its start to its end: the production code of a start and of an epoch, in a simulated world."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceward import errors
from onceward.epoch import deeds
from onceward.epoch import term as terms
from onceward.epoch.contract import Guarantee, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home
from onceward.epoch.journal import Journal
from onceward.epoch.ledger import Ledger
from onceward.epoch.patience import Patience
from onceward.epoch.resetting import Resetting
from onceward.epoch.runner import EpochRunner
from onceward.epoch.storage import Storage
from onceward.epoch.takeover import TakeOver
from onceward.epoch.term import Holder, Term
from onceward.proof.simulation.disk import Mount
from onceward.proof.simulation.engine import TOPIC, Engine, Query
from onceward.proof.simulation.lineages import Lineages
from onceward.proof.simulation.world import Driver, World
from onceward.savepoint.manifest import load
from onceward.savepoint.restoring import Restoring

PIPELINE: Final = "p"
PATIENCE_S: Final = 600.0  # as a pipeline's own


def as_it_is(mount: Mount) -> Storage:
    """The disk without a bug. A name, since parts travel to other processes."""
    return mount


@dataclass(frozen=True, slots=True)
class Parts:
    """What a driver is made of. A planted bug replaces one of them."""

    coordinator: type[Coordinator] = Coordinator
    take_over: type[TakeOver] = TakeOver
    decisions: type[Decisions] = Decisions
    ledger: type[Ledger] = Ledger
    term: type[Term] = Term
    journal: type[Journal] = Journal
    runner: type[EpochRunner] = EpochRunner
    restoring: type[Restoring] = Restoring
    resetting: type[Resetting] = Resetting
    enter: Callable[[Storage, int], Deed | None] = deeds.enter
    store: Any = None
    store_sink: Any = None
    broker: Any = None
    kafka_sink: Any = None
    transactor: Any = None
    mount: Callable[[Mount], Storage] = as_it_is


class Beside:
    """`onceward.epoch.ports.Background`: at once, or not before somebody waits for it."""

    def __init__(self, *, lags: bool) -> None:
        self._lags = lags
        self._waiting: deque[Work] = deque()

    def submit(self, work: Callable[[], None]) -> "Work":
        made = Work(work, self)
        self._waiting.append(made)
        if not self._lags:
            self.catch_up(made)
        return made

    def close(self) -> None:
        while self._waiting:
            self._waiting.popleft().carry_out()

    def catch_up(self, work: "Work") -> None:
        """One after the other, up to this one."""
        while not work.over:
            self._waiting.popleft().carry_out()


class Work:
    """Something to be done beside the epoch."""

    def __init__(self, work: Callable[[], None], beside: Beside) -> None:
        self._work, self._beside = work, beside
        self.over = False
        self._error: Exception | None = None

    def carry_out(self) -> None:
        self.over = True
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - raised by `result`
            self._error = error

    def result(self) -> None:
        self._beside.catch_up(self)
        if self._error is not None:
            raise self._error


class NoStop:
    """`onceward.epoch.ports.Stop`: nobody asks."""

    def __init__(self, world: World) -> None:
        self._world = world

    def is_set(self) -> bool:
        return False

    def wait(self, timeout: float) -> None:
        self._world.sleep(timeout)


def drive(world: World, driver: Driver, parts: Parts, engine: Engine, sinks: Mapping[str, TwoPhaseCommitSink]) -> None:
    """A process: take the home over, recover, run epoch after epoch until the input ends."""
    try:
        _drive(world, driver, parts, engine, sinks)
    except Exception as error:  # noqa: BLE001 - whatever it is, the checkers judge it
        kind = "OSError" if isinstance(error, OSError) else type(error).__name__
        world.ended(kind, str(error))
    else:
        world.ended("finished")


def _drive(world: World, driver: Driver, parts: Parts, engine: Engine, sinks: Mapping[str, TwoPhaseCommitSink]) -> None:
    storage = parts.mount(world.mount())
    home = Home(storage, "home", "home")
    deed = home.open(PIPELINE, Guarantee.EXACTLY_ONCE.value, f"lineage{driver.number}")
    claimed = terms.acquire(
        storage, _holder(driver), is_dead=lambda _: True, clock=world.time, sleep=world.sleep, take_over=True
    )
    term = parts.term(storage, claimed.number, claimed.holder, claimed.count)
    driver.term = term.number
    deed = parts.enter(storage, term.number) or deed
    if world.asked_to_reset():
        _reset(world, parts, home, term, sinks)
        return
    if (place := world.newest_savepoint(storage)) is not None:
        deed = parts.restoring(
            place=place,
            savepoint=load(place),
            home=home,
            pipeline=PIPELINE,
            guarantee=Guarantee.EXACTLY_ONCE,
            sinks=sinks,
            rewrite=lambda *_: 0,
            now=lambda: "",
            fresh=lambda: f"lineage-of-term-{term.number}",
            report=world.tell,
        )(term)
    room = home.of_lineage(deed)
    start = parts.take_over(
        home=room,
        owner=Owner(
            pipeline=PIPELINE,
            lineage=deed.lineage,
            term=term.number,
            guarantee=Guarantee.EXACTLY_ONCE,
            inherits=deed.inherits,
        ),
        coordinator=parts.coordinator(
            sinks,
            is_final=lambda error: isinstance(error, errors.FINAL),
            clock=world.time,
            sleep=world.sleep,
            patience=Patience(PATIENCE_S, clock=world.time, sleep=world.sleep, keep_on=term.require_current),
        ),
        ledger=parts.ledger(room.storage, terms.boundaries(storage), deed.lineage),
        decisions=parts.decisions(room.storage, deed.lineage, term.number),
        term=term,
        clock=world.time,
        now=lambda: "",
        report=world.tell,
        consent=world.consent(),
        first_term=deed.origin.first_term if deed.origin is not None else 0,
    )
    taken = start.recover()
    shift = Lineages(world.quiet_mount()).shift_of(deed.lineage)
    world.began(term.number, taken.recovered.committed + shift)
    lags = bool((world.schedule.seed + driver.number) % 2)
    runner = parts.runner(
        taken, Beside(lags=lags), NoStop(world), clock=world.time, now=lambda: "", journal=parts.journal
    )
    folder = f"{deed.folder}/{taken.checkpoint.folder}" if deed.folder else taken.checkpoint.folder
    query = Query(engine, world, folder, sinks, shift)
    with terms.fenced_first(term):  # an overtaken driver's engine finds its folder gone
        epoch = query.open()
        while epoch + shift < engine.epochs:
            batch = query.batch(epoch)
            runner(batch, epoch)
            query.finish(epoch, batch)
            world.observe()
            epoch += 1
        runner.close()
    term.release()


def _reset(world: World, parts: Parts, home: Home, term: Term, sinks: Mapping[str, TwoPhaseCommitSink]) -> None:
    """What `onceward reset --from-group` does once the home is its own; the next driver is a start like any other."""
    parts.resetting(
        home=home,
        pipeline=PIPELINE,
        guarantee=Guarantee.EXACTLY_ONCE,
        sinks=sinks,
        sources=[frozenset({TOPIC})],
        from_group=True,
        now=lambda: "",
        fresh=lambda: f"lineage-of-term-{term.number}",
        report=world.tell,
    )(term)
    term.release()


def _holder(driver: Driver) -> Callable[[int], Holder]:
    return lambda number: Holder(
        term=number, pipeline=PIPELINE, host="h", machine="m", pid=driver.number, process_start="", since=""
    )
