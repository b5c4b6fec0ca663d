"""One driver from its start to its end: the production code of a start and of an epoch, in a simulated world."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from onceward import errors
from onceward.epoch import deeds, skips
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint, offsets_of
from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.home import Home
from onceward.epoch.inspection import deed_of, ledger_of
from onceward.epoch.new_lineage import Beginning, NewLineage
from onceward.epoch.patience import Patience
from onceward.epoch.places import SourceRecord
from onceward.epoch.ports import Process
from onceward.epoch.query_shape import differences
from onceward.epoch.resetting import Resetting
from onceward.epoch.runner import EpochRunner, Stopping
from onceward.epoch.skips import Skipped
from onceward.epoch.starting import Opened, Start
from onceward.epoch.term import Holder, Term, fenced_first
from onceward.errors import SkipRefused
from onceward.proof.simulation.engine import TOPIC, Engine, Query, shape_of
from onceward.proof.simulation.lineages import Lineages
from onceward.proof.simulation.world import GONE, Driver, World
from onceward.savepoint.creating import create, savable_epochs
from onceward.savepoint.manifest import load
from onceward.savepoint.place import Place
from onceward.savepoint.restoring import Restoring
from onceward.savepoint.retaining import settle

PIPELINE: Final = "p"
PATIENCE_S: Final = 600.0  # as a pipeline's own


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


class Kept:
    """A lease: nobody waits for it. Whoever is dead lets nothing go."""

    def __init__(self, driver: Driver, term: Term) -> None:
        self._driver, self._term = driver, term
        driver.term = term.number

    def release(self) -> None:
        if self._driver.state is not GONE:
            self._term.release()


class Asked:
    """`onceward.epoch.ports.Stop`: whether somebody has asked this driver."""

    def __init__(self, world: World, driver: Driver) -> None:
        self._world, self._driver = world, driver

    def is_set(self) -> bool:
        return self._driver.stopping

    def wait(self, timeout: float) -> None:
        self._world.sleep(timeout)


@dataclass(slots=True)
class Life:
    """One driver's: take the home over, recover, run epoch after epoch until the input ends."""

    world: World
    driver: Driver
    engine: Engine
    sinks: Mapping[str, TwoPhaseCommitSink]
    newest_savepoint: Callable[[], str]

    def live(self) -> None:
        try:
            self._live()
        except Exception as error:  # noqa: BLE001 - whatever it is, the checkers judge it
            kind = "OSError" if isinstance(error, OSError) else type(error).__name__
            self.world.ended(kind, str(error))
        else:
            self.world.ended("finished")

    def _live(self) -> None:
        people, query = self.world.people, self.world.people.query
        start = self._start(query)
        if people.asks_to_reset():
            start.begin(self._new_lineage(start, self._reset(start)))
            return
        place = Place.within(start.home, self.newest_savepoint()) if people.asks_to_restore() else None
        record = people.asks_to_skip()
        if record is not None and start.home.deed() is None:
            raise SkipRefused("nobody's home yet")
        begins = self._new_lineage(start, self._restore(start, place)) if place is not None else None
        stop = Asked(self.world, self.driver)
        opened = start.take_over(self._coordinator, stop, consent=people.consent(), begins=begins)
        shift = Lineages(self.world.quiet_mount()).shift_of(opened.taken.owner.lineage)
        self.world.began(opened.taken.term.number, opened.taken.recovered.committed + shift, frozenset(self.sinks))
        if record is not None:
            self._skip(opened, self.engine.record(record))
        else:
            self._run(opened, query, shift)

    def _start(self, query: int) -> Start:
        world = self.world
        return Start(
            home=Home(world.mount(), "home", "home"),
            pipeline=PIPELINE,
            guarantee=world.schedule.guarantee,
            sinks=self.sinks,
            process=_process(world, self.driver),
            shape=shape_of(query),
            at_once=not world.schedule.waits or self.driver.number % 2 == 0,
            report=world.tell,
        )

    def _run(self, opened: Opened, number: int, shift: int) -> None:
        world, engine, taken = self.world, self.engine, opened.taken
        lags = bool((world.schedule.seed + self.driver.number) % 2)
        runner = EpochRunner(taken, Beside(lags=lags), opened.stop, clock=world.time, now=lambda: "")
        query = Query(
            engine,
            world,
            opened.home.uri(taken.checkpoint.folder).removeprefix("home/"),
            self.sinks,
            shift=shift,
            number=number,
            skipped=taken.skips,
            passed=Lineages(world.quiet_mount()).passed(),
            notes=taken.checkpoint.notes,
        )
        failure: Exception | None = None
        try:
            with fenced_first(taken.term):  # an overtaken driver's engine finds its folder gone
                epoch = query.open()
                while epoch + shift < engine.epochs:
                    batch = query.batch(epoch)
                    runner(batch, epoch)
                    query.finish(epoch, batch)
                    world.observe()
                    epoch += 1
        except Exception as error:  # noqa: BLE001 - raised below
            failure = error
        self._end(opened, runner, failure)
        if failure is not None:
            raise failure

    def _end(self, opened: Opened, runner: EpochRunner, failure: Exception | None) -> None:
        """As a query does it when it ends, whatever the reason."""
        try:
            runner.close()
        finally:
            opened.close()
        failed = failure if not isinstance(failure, Stopping) else None
        savable = self.driver.saves and self._is_savable(opened)
        settle(
            opened,
            runner,
            failed,
            self.world.schedule.retain,
            lambda folder: opened.whole.storage.clear(folder.removeprefix("home/")),
            saves=self.driver.saves,
            now=lambda: "",
        )
        if savable:
            self._save()

    def _is_savable(self, opened: Opened) -> bool:
        """Whether nobody else drives the home, and an epoch is finished in it."""
        storage = self.world.quiet_mount()
        taken, home = opened.taken, Home(storage, "home", "home")
        if terms.newest_holder(storage) != taken.term.holder:
            return False
        deed = deed_of(home)
        return next(savable_epochs(home, deed, Checkpoint.newest(home.of_lineage(deed))), None) is not None

    def _save(self) -> None:
        before, said = self.newest_savepoint(), self.world.people.doors.save()
        if self.newest_savepoint() == before:
            self.world.spoilt.append(f"driver {self.driver.number} was stopped to be saved, and cannot be: {said}")

    def _coordinator(self, term: Term) -> Coordinator:
        world = self.world
        return Coordinator(
            self.sinks,
            is_final=lambda error: isinstance(error, errors.FINAL),
            clock=world.time,
            sleep=world.sleep,
            patience=Patience(PATIENCE_S, clock=world.time, sleep=world.sleep, keep_on=term.require_current),
        )

    def _new_lineage(self, start: Start, begins: Beginning) -> NewLineage:
        """As `onceward run --from` and `onceward reset` put it together."""
        return NewLineage(
            home=start.home,
            pipeline=PIPELINE,
            guarantee=start.guarantee,
            sinks=start.sinks,
            begins=begins,
            now=start.process.now,
            fresh=start.process.fresh,
            report=self.world.tell,
        )

    def _restore(self, start: Start, place: Place) -> Restoring:
        saved = load(place)
        restore = Restoring(
            place=place,
            savepoint=saved,
            home=start.home,
            pipeline=PIPELINE,
            guarantee=start.guarantee,
            rewrite=lambda *_: 0,
            now=start.process.now,
            report=self.world.tell,
        )
        assert saved.shape is not None
        assert start.shape is not None
        restore.check(differences(saved.shape, start.shape))
        return restore

    def _reset(self, start: Start) -> Resetting:
        """As `onceward reset --from-group`; the next driver is a start like any other.

        Where that is refused because a marker is gone, and nothing is in doubt any more: as `--offsets`.
        """
        sources = [frozenset({TOPIC})] * self.engine.sources
        deed = start.home.deed()
        last = ledger_of(start.home, deed).last() if deed is not None else None
        dropped = deeds.ended(start.home.storage) is not None
        if last is not None and dropped and self.world.people.by_ledger:
            offsets = [offsets_of(text) for text in last.positions]
            return Resetting(home=start.home, pipeline=PIPELINE, sources=sources, offsets=offsets)
        return Resetting(home=start.home, pipeline=PIPELINE, sources=sources, from_group=True)

    def _skip(self, opened: Opened, place: SourceRecord) -> None:
        """As `onceward skip` does it."""
        try:
            opened.taken.require_ahead(place)
            source, topic, partition, offset = place
            skips.add(
                opened.taken.checkpoint.notes, Skipped(source=source, topic=topic, partition=partition, offset=offset)
            )
        finally:
            opened.close()


def save(world: World, name: str) -> None:
    """A process of its own makes a savepoint, while drivers and others like it go on."""
    home = Home(world.mount(), "home", "home")
    try:
        if home.deed() is not None:
            create(home, name=name, now=lambda: "", sleep=world.doze, fresh=lambda: f"{world.clock:08x}")
    except Exception as error:  # noqa: BLE001 - whatever it is, the checkers judge it
        world.ended("OSError" if isinstance(error, OSError) else type(error).__name__, str(error))
    else:
        world.ended("finished")


def holder_of(number: int, term: int) -> Holder:
    """A process of a simulated machine: there are two of them."""
    machine = f"machine {number % 2}"
    return Holder(term=term, pipeline=PIPELINE, host=machine, machine=machine, pid=number, process_start="", since="")


def _process(world: World, driver: Driver) -> Process:
    return Process(
        clock=world.time,
        sleep=world.doze,
        now=lambda: "",
        fresh=lambda: f"lineage-of-driver-{driver.number}",
        holder=lambda _, term: holder_of(driver.number, term),
        is_gone=lambda holder: not world.schedule.waits or world.drivers[holder.pid - 1].state is GONE,
        keep=lambda term: Kept(driver, term),
    )
