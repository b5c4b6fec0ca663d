"""One driver from its start to its end: the production code of a start and of an epoch, in a simulated world."""

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
from onceward.epoch.new_lineage import NewLineage
from onceward.epoch.patience import Patience
from onceward.epoch.places import SourceRecord
from onceward.epoch.ports import Process
from onceward.epoch.query_shape import differences
from onceward.epoch.resetting import Resetting
from onceward.epoch.runner import EpochRunner, Stopping
from onceward.epoch.skips import Skipped
from onceward.epoch.starting import Opened, Start
from onceward.epoch.storage import Storage
from onceward.epoch.term import Term, fenced_first
from onceward.errors import SkipRefused
from onceward.proof.history import Began
from onceward.proof.simulation.engine import TOPIC, Engine, Query, shape_of
from onceward.proof.simulation.lineages import Lineages
from onceward.proof.simulation.ports import Asked, Beside, Kept, holder_of
from onceward.proof.simulation.state import share_out
from onceward.proof.simulation.world import GONE, Driver, World
from onceward.savepoint.creating import create, savable_epochs
from onceward.savepoint.manifest import load
from onceward.savepoint.place import Place
from onceward.savepoint.restoring import Restoring
from onceward.savepoint.retaining import settle

PIPELINE: Final = "p"
MOST_PARTITIONS: Final = 3  # of the state
PATIENCE_S: Final = 600.0  # as a pipeline's own


@dataclass(frozen=True, slots=True)
class Site:
    """A pipeline and what is around it."""

    world: World
    engine: Engine
    pipeline: str
    lineages: Callable[[], Lineages]
    newest_savepoint: Callable[[], str]  # its name
    original: Callable[[Storage], Place | None]  # of a copy: the savepoint that it begins with


@dataclass(slots=True)
class Life:
    """One driver's: take the home over, recover, run epoch after epoch until the input ends."""

    site: Site
    driver: Driver
    sinks: Mapping[str, TwoPhaseCommitSink]

    @property
    def world(self) -> World:
        return self.site.world

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
            start.begin(NewLineage(start=start, begins=self._reset(start)))
            return
        place = self._savepoint(start.home)
        record = people.asks_to_skip()
        if record is not None and start.home.deed() is None:
            raise SkipRefused("nobody's home yet")
        begins = NewLineage(start=start, begins=self._restore(start, place)) if place is not None else None
        stop = Asked(self.world, self.driver)
        opened = start.take_over(self._coordinator, stop, consent=people.consent(), begins=begins)
        shift = self.site.lineages().shift_of(opened.taken.owner.lineage)
        self.world.began(opened.taken.term.number, opened.taken.recovered.committed + shift, frozenset(self.sinks))
        if record is not None:
            self._skip(opened, self.site.engine.record(record))
        else:
            self._run(opened, query, shift)

    def _savepoint(self, home: Home) -> Place | None:
        """To begin with. A copy that has not begun is started so again, unless its home has it and that was refused."""
        people = self.world.people
        if people.asks_to_restore():
            return Place.within(home, self.site.newest_savepoint())
        if any(isinstance(event, Began) for event in self.world.events):
            return None
        return self.site.original(home.storage) if not people.was_refused or home.deed() is None else None

    def _start(self, query: int) -> Start:
        world = self.world
        return Start(
            home=Home(world.mount(), "home", "home"),
            pipeline=self.site.pipeline,
            guarantee=world.schedule.guarantee,
            sinks=self.sinks,
            process=_process(self.site, self.driver),
            shape=shape_of(query),
            at_once=not world.schedule.waits or self.driver.number % 2 == 0,
            report=world.tell,
        )

    def _run(self, opened: Opened, number: int, shift: int) -> None:
        world, engine, taken = self.world, self.site.engine, opened.taken
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
            passed=self.site.lineages().passed(),
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
        before, said = self.site.newest_savepoint(), self.world.people.doors.save()
        if self.site.newest_savepoint() == before:
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

    def _restore(self, start: Start, place: Place) -> Restoring:
        saved = load(place)
        other = 1 + (saved.partitions or 0) % MOST_PARTITIONS if self.world.people.asks_to_rescale() else None
        restore = Restoring(
            place=place,
            savepoint=saved,
            start=start,
            rewrite=lambda folder, saved, to, _: share_out(self.world, folder.removeprefix("home/"), saved, to or 1),
            partitions=other,
        )
        assert saved.shape is not None
        assert start.shape is not None
        restore.check(differences(saved.shape, start.shape))
        return restore

    def _reset(self, start: Start) -> Resetting:
        """As `onceward reset --from-group`; the next driver is a start like any other.

        Where that is refused because a marker is gone, and nothing is in doubt any more: as `--offsets`.
        """
        sources = [frozenset({TOPIC})] * self.site.engine.sources
        deed = start.home.deed()
        last = ledger_of(start.home, deed).last() if deed is not None else None
        dropped = deeds.ended(start.home.storage) is not None
        if last is not None and dropped and self.world.people.by_ledger:
            offsets = [offsets_of(text) for text in last.positions]
            return Resetting(pipeline=self.site.pipeline, sources=sources, offsets=offsets)
        return Resetting(pipeline=self.site.pipeline, sources=sources, from_group=True)

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
            create(home, name=name, now=lambda: "", sleep=world.doze, fresh=world.fresh_id)
    except Exception as error:  # noqa: BLE001 - whatever it is, the checkers judge it
        world.ended("OSError" if isinstance(error, OSError) else type(error).__name__, str(error))
    else:
        world.ended("finished")


def _process(site: Site, driver: Driver) -> Process:
    world = site.world
    return Process(
        clock=world.time,
        sleep=world.doze,
        now=lambda: "",
        fresh=lambda: f"lineage-of-{site.pipeline}-{driver.number}",
        holder=lambda _, term: holder_of(site.pipeline, driver.number, term),
        is_gone=lambda holder: not world.schedule.waits or world.drivers[holder.pid - 1].state is GONE,
        keep=lambda term: Kept(driver, term),
    )
