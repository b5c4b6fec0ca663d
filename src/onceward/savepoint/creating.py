"""Making a savepoint, while the pipeline runs in this process, in another one, or not at all.

Nothing is asked of the driver. The newest epoch that is committed everywhere and that Spark has noted as finished is
chosen; its files are pinned, copied with a checksum on the way, synced, sealed, and put in place by one rename. Killed
at any moment, there is no savepoint or a whole one.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward import crashpoints
from onceward.epoch import deeds, expected, inspection, query_shape
from onceward.epoch.checkpoint import NOTES, Checkpoint
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home, is_in_memory
from onceward.epoch.ledger import DONE, Entry
from onceward.epoch.sealed import seal
from onceward.epoch.storage import Below
from onceward.errors import ConfigurationError, SavepointUnusable
from onceward.holding import this_process
from onceward.savepoint import pins
from onceward.savepoint.copying import copy, is_local, side_by_side
from onceward.savepoint.facts import backend_of, operators_of, partitions_of
from onceward.savepoint.manifest import FILE, KIND, FileFacts, Savepoint
from onceward.savepoint.needed import NotThere
from onceward.savepoint.pins import Note, Pins
from onceward.savepoint.place import Place, require_savepoint_name

TRIES: Final = 20  # a take-over renames the checkpoint, Spark clears old versions: then there is a newer epoch
AGAIN_S: Final = 0.1
NEWEST: Final = 100  # epochs that Spark keeps of its logs


@dataclass(frozen=True, slots=True)
class Chosen:
    """An epoch to be saved, and where its files are."""

    deed: Deed
    room: Home  # of its lineage
    entry: Entry
    plan: str  # Spark's


def create(
    home: Home,
    *,
    to: str | Path | None = None,
    name: str | None = None,
    now: Callable[[], str],
    report: Callable[[str], None] = lambda _: None,
    sleep: Callable[[float], None] = time.sleep,
    fresh: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> Place:
    """A savepoint of a home: `to` a local directory that is not there yet, or under `name` among the home's own."""
    require_savable(home)
    target = _target(home, to, name)
    if target is not None:
        KIND.require_free(target)
    clear_leftovers(home, report)
    with saving(home, target, is_local=to is not None, fresh=fresh) as under_way:
        under_way.pin_newest(sleep, report)
        crashpoints.reach("savepoint-pinned", under_way.epoch)
        return under_way.finish(now())


def require_savable(home: Home) -> Deed:
    """Whose home it is, if there can be a savepoint of it."""
    if is_in_memory(home.location):
        raise SavepointUnusable(
            f"{home.location} keeps its checkpoints in memory, for tests, and is gone with its process: there is "
            "nothing that a savepoint could be restored to. Give the pipeline a home on a disk."
        )
    return inspection.deed_of(home)


def clear_leftovers(home: Home, report: Callable[[str], None]) -> None:
    """What processes that are gone have left of their savepoints."""
    pins.clear_leftovers(home.storage, lambda found: Place.within(home, found), report)


@contextmanager
def saving(home: Home, target: Place | None, *, is_local: bool, fresh: Callable[[], str]) -> Iterator["Saving"]:
    """A savepoint under way. Whatever happens, its pins and what is unfinished of it go in the end."""
    identity = fresh()
    partial = (target or Place.within(home, "")).beside(pins.unfinished(identity))
    path = str(Path(partial.location).parent) if is_local else ""
    deed = inspection.deed_of(home)
    held = Pins(home.storage, Note(id=identity, holder=this_process(deed.pipeline, 0), path=path))
    held.announce()
    try:
        yield Saving(home, target, identity, partial, held)
    finally:
        partial.around.clear(partial.name)
        held.release()


@dataclass(slots=True)
class Saving:
    """Pinned first, then copied: nothing that it needs can go in between."""

    home: Home
    target: Place | None  # None: its name follows from the epoch, among the home's own
    identity: str
    partial: Place
    held: Pins
    chosen: Chosen | None = None

    def pin_newest(self, sleep: Callable[[float], None], report: Callable[[str], None]) -> None:
        """The newest epoch whose files are all there. Those of an older one may go while they are being pinned."""
        reason = ""
        for attempt in range(1, TRIES + 1):
            try:
                return self.pin()
            except NotThere as gone:
                reason = str(gone)
            report(f"the checkpoint changed ({reason}); once more, with the newest epoch")
            sleep(AGAIN_S * attempt)
        raise SavepointUnusable(
            f"no epoch of {self.home.location} could be saved in {TRIES} tries: {reason}. If a driver restarts all the "
            "time, stop it first (--stop); otherwise its checkpoint is damaged."
        )

    def pin(self, epoch: int | None = None) -> None:
        """One epoch, or the newest; `NotThere` if something that it needs is gone, and then nothing is held."""
        try:
            self.chosen = _pinned(self.home, self.held, epoch)
        except NotThere:
            self.held.start_over()
            raise

    @property
    def epoch(self) -> int:
        return self.pinned.entry.epoch

    @property
    def pinned(self) -> Chosen:
        assert self.chosen is not None, "pin first"
        return self.chosen

    def finish(self, created_at: str) -> Place:
        """Copy, seal, and put in place."""
        target = self.target or Place.within(self.home, f"epoch-{self.epoch:012d}-{self.identity[:8]}")
        _write(self.home, self.held, self.pinned, self.partial, self.identity, created_at)
        KIND.put_in_place(self.partial, target)
        return target


def _target(home: Home, to: str | Path | None, name: str | None) -> Place | None:
    """None: its name follows from the epoch, among the home's own."""
    if to is not None and name is not None:
        raise ConfigurationError("a savepoint goes to a path (to), or has a name among the home's own (name); not both")
    if to is not None:
        place = Place.at(to)
        require_savepoint_name(place.name)
        return place
    return Place.within(home, require_savepoint_name(name)) if name is not None else None


def _pinned(home: Home, held: Pins, epoch: int | None) -> Chosen:
    deed = inspection.deed_of(home)
    room = home.of_lineage(deed)
    checkpoint = Checkpoint.newest(room)
    savable = savable_epochs(home, deed, checkpoint)
    entry = next((entry for entry in savable if epoch is None or entry.epoch == epoch), None)
    if entry is None:
        raise _nothing_to_save(home, deed, checkpoint, epoch)
    folder = f"{deed.folder}/{checkpoint.folder}" if deed.folder else checkpoint.folder
    plan = held.pin(folder, entry.epoch)
    before = inspection.ledger_of(home, deed).read(entry.epoch - 1)
    for its, said in ((entry, plan), (before, held.plan(entry.epoch - 1))):
        if its is not None and said is not None and said != its.plan:
            raise NotThere(f"offsets/{its.epoch} does not say what was committed, and the next start puts it back")
    if Checkpoint.newest(room).folder != checkpoint.folder:
        raise NotThere("a newer driver has taken the checkpoint along")
    return Chosen(deed, room, entry, plan)


def savable_epochs(home: Home, deed: Deed, checkpoint: Checkpoint) -> Iterator[Entry]:
    """The newest first: committed in every sink, recorded, and finished in Spark's own log: the state is complete."""
    ledger = inspection.ledger_of(home, deed)
    for epoch in sorted(checkpoint.all_finished(), reverse=True)[:NEWEST]:
        entry = ledger.read(epoch)
        if entry is not None and entry.phase == DONE:
            yield entry


def _nothing_to_save(home: Home, deed: Deed, checkpoint: Checkpoint, epoch: int | None) -> NotThere | SavepointUnusable:
    if (ended := deeds.ended(home.storage)) is not None:
        return SavepointUnusable(f"the pipeline of {home.location} {ended}, so there is nothing to save")
    if epoch is not None:
        return NotThere(f"epoch {epoch} is no longer there")
    nothing = not checkpoint.all_finished() and checkpoint.planned() is None
    if nothing and inspection.ledger_of(home, deed).last() is not None:
        return NotThere("the checkpoint's folder is being renamed, or is gone")
    return SavepointUnusable(
        f"pipeline {deed.pipeline!r} has not finished an epoch yet: there is nothing to save. Start it, and wait for "
        f"its first epoch (onceward epochs {home.location})."
    )


def _write(home: Home, held: Pins, chosen: Chosen, partial: Place, identity: str, created_at: str) -> None:
    partial.around.make(partial.name)  # the state in it is somebody's data: for its owner alone
    source = Below(home.storage, held.folder)
    files = side_by_side(
        source.walk(""), lambda name: copy(source, name, partial, name), local=is_local(source, partial)
    )
    if gone := sorted(held.names - set(files)):
        raise SavepointUnusable(
            f"{held.folder} in {home.location} has lost {gone[0]} (and {len(gone) - 1} others) while the savepoint was "
            "being made: somebody has cleared its pins. Nothing was saved; make it again."
        )
    partial.settle("")
    crashpoints.reach("savepoint-copied", chosen.entry.epoch)
    savepoint = _manifest(home, chosen, held, files, identity, created_at)
    partial.replace(FILE, seal(savepoint))
    crashpoints.reach("savepoint-sealed", chosen.entry.epoch)


def _manifest(
    home: Home, chosen: Chosen, held: Pins, files: Mapping[str, FileFacts], identity: str, created_at: str
) -> Savepoint:
    deed, entry, plan = chosen.deed, chosen.entry, chosen.plan
    if (shape := query_shape.read(held.note(query_shape.FILE))) is None:
        raise SavepointUnusable(
            f"{home.location} has lost {NOTES}/{query_shape.FILE} in its checkpoint: whether a query fits the state "
            "could not be told at a restore. Restore the checkpoint from a backup of the home."
        )
    return Savepoint(
        id=identity,
        pipeline=deed.pipeline,
        lineage=deed.lineage,
        guarantee=deed.guarantee,
        epoch=entry.epoch,
        term=entry.term,
        created_at=created_at,
        entry=entry,
        held=expected.recorded(home.storage, deed, entry, upto=entry.epoch),
        shape=shape,
        partitions=partitions_of(plan),
        backend=backend_of(plan),
        operators=operators_of(held.operators, held.rows, files),
        files=dict(files),
    )
