"""Making a savepoint, while the pipeline runs in this process, in another one, or not at all.

Nothing is asked of the driver. The newest epoch that is committed everywhere and that Spark has noted as finished is
chosen; its files are pinned, copied with a checksum on the way, synced, sealed, and put in place by one rename. Killed
at any moment, there is no savepoint or a whole one.
"""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward import crashpoints
from onceward.epoch import inspection, query_shape
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home, is_in_memory
from onceward.epoch.ledger import DONE, Entry
from onceward.epoch.sealed import seal
from onceward.errors import ConfigurationError, SavepointUnusable
from onceward.savepoint import pins
from onceward.savepoint.copying import Copying
from onceward.savepoint.facts import backend_of, operators_of, partitions_of
from onceward.savepoint.manifest import CHECKPOINT, FILE, NOTES, FileFacts, Savepoint
from onceward.savepoint.needed import NotThere
from onceward.savepoint.pins import Note, Pins
from onceward.savepoint.place import Place, require_savepoint_name

TRIES: Final = 20  # a take-over renames the checkpoint, Spark clears old versions: then there is a newer epoch
AGAIN_S: Final = 0.1
NEWEST: Final = 100  # epochs that Spark keeps of its logs
WANTED: Final = ("sources.json", query_shape.FILE)  # what a restore wants besides the checkpoint


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
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    fresh: Callable[[], str] = lambda: uuid.uuid4().hex,
) -> Place:
    """A savepoint of a home: `to` a local directory that is not there yet, or under `name` among the home's own."""
    if is_in_memory(home.location):
        raise SavepointUnusable(
            f"{home.location} keeps its checkpoints in memory, for tests, and is gone with its process: there is "
            "nothing that a savepoint could be restored to. Give the pipeline a home on a disk."
        )
    inspection.deed_of(home)
    target = _target(home, to, name)
    if target is not None:
        _require_free(target)
    pins.clear_leftovers(home.storage, lambda found: Place.within(home, found), clock=clock, sleep=sleep, report=report)
    identity = fresh()
    partial = (target or Place.within(home, "")).beside(pins.unfinished(identity))
    path = "" if to is None else str(Path(partial.location).parent)
    held = Pins(home.storage, Note.of_this_process(identity, now(), path=path, name=partial.name))
    held.announce()
    try:
        chosen = _pin_newest(home, held, sleep, report)
        crashpoints.reach("savepoint-pinned", chosen.entry.epoch)
        target = target or Place.within(home, f"epoch-{chosen.entry.epoch:012d}-{identity[:8]}")
        _write(home, held, chosen, partial, identity, now())
        _put_in_place(partial, target)
    finally:
        partial.around.clear(partial.name)
        held.release()
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


def _require_free(place: Place) -> None:
    if place.exists():
        raise SavepointUnusable(f"{place.location} is there already; a savepoint replaces nothing: choose another name")


def _pin_newest(home: Home, held: Pins, sleep: Callable[[float], None], report: Callable[[str], None]) -> Chosen:
    """The newest epoch whose files are all there. Those of an older one may go while they are being pinned."""
    reason = ""
    for attempt in range(1, TRIES + 1):
        try:
            return _pinned(home, held)
        except NotThere as gone:
            reason = str(gone)
            held.start_over()
        report(f"the checkpoint changed ({reason}); once more, with the newest epoch")
        sleep(AGAIN_S * attempt)
    raise SavepointUnusable(
        f"no epoch of {home.location} could be saved in {TRIES} tries: {reason}. If a driver restarts all the time, "
        "stop it first (--stop); otherwise its checkpoint is damaged."
    )


def _pinned(home: Home, held: Pins) -> Chosen:
    deed = inspection.deed_of(home)
    room = home.of_lineage(deed)
    checkpoint = Checkpoint.newest(room)
    entry = _newest_epoch(home, deed, checkpoint)
    folder = f"{deed.folder}/{checkpoint.folder}" if deed.folder else checkpoint.folder
    plan = held.pin(folder, entry.epoch)
    if plan.splitlines()[2:] != entry.positions:
        raise NotThere(f"offsets/{entry.epoch} does not say what was committed, and the next start puts it back")
    if Checkpoint.newest(room).folder != checkpoint.folder:
        raise NotThere("a newer driver has taken the checkpoint along")
    return Chosen(deed, room, entry, plan)


def _newest_epoch(home: Home, deed: Deed, checkpoint: Checkpoint) -> Entry:
    """Committed in every sink, recorded, and finished in Spark's own log: its state is complete."""
    finished = checkpoint.all_finished()
    ledger = inspection.ledger_of(home, deed)
    for epoch in sorted(finished, reverse=True)[:NEWEST]:
        entry = ledger.read(epoch)
        if entry is not None and entry.phase == DONE:
            return entry
    if not finished and checkpoint.planned() is None and ledger.last() is not None:
        raise NotThere("the checkpoint's folder is being renamed, or is gone")
    raise SavepointUnusable(
        f"pipeline {deed.pipeline!r} has not finished an epoch yet: there is nothing to save. Start it, and wait for "
        f"its first epoch (onceward epochs {home.location})."
    )


def _write(home: Home, held: Pins, chosen: Chosen, partial: Place, identity: str, created_at: str) -> None:
    partial.around.make(partial.name)  # the state in it is somebody's data: for its owner alone
    copying = Copying(home.storage, partial.around)
    files = {
        f"{CHECKPOINT}/{name}": facts
        for name, facts in copying.all_below(held.folder, f"{partial.name}/{CHECKPOINT}", meanwhile=held.beat).items()
    }
    files |= _notes(chosen.room, copying, partial)
    partial.around.settle(partial.name)
    crashpoints.reach("savepoint-copied", chosen.entry.epoch)
    savepoint = _manifest(chosen, held, files, identity, created_at)
    partial.around.replace(f"{partial.name}/{FILE}", seal(savepoint))
    crashpoints.reach("savepoint-sealed", chosen.entry.epoch)


def _notes(room: Home, copying: Copying, partial: Place) -> dict[str, FileFacts]:
    found: dict[str, FileFacts] = {}
    for name in WANTED:
        data = room.storage.read(name)
        if data is not None:
            found[f"{NOTES}/{name}"] = copying.one([data], f"{partial.name}/{NOTES}/{name}")
    return found


def _manifest(chosen: Chosen, held: Pins, files: Mapping[str, FileFacts], identity: str, created_at: str) -> Savepoint:
    deed, entry, plan = chosen.deed, chosen.entry, chosen.plan
    return Savepoint(
        id=identity,
        pipeline=deed.pipeline,
        lineage=deed.lineage,
        guarantee=deed.guarantee,
        epoch=entry.epoch,
        term=entry.term,
        created_at=created_at,
        entry=entry,
        inherits=dict(deed.inherits) if deed.origin is not None and deed.origin.begins_after == entry.epoch else {},
        shape=query_shape.read(chosen.room.storage),
        partitions=partitions_of(plan),
        backend=backend_of(plan),
        operators=operators_of(held.operators, held.rows, files),
        files=dict(files),
    )


def _put_in_place(partial: Place, target: Place) -> None:
    """One rename; it fails if somebody else has made a savepoint of that name meanwhile."""
    _require_free(target)
    try:
        partial.around.move(partial.name, target.name)
    except OSError:
        _require_free(target)
        raise
