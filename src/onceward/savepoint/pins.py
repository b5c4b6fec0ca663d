"""Keeping what a savepoint needs, while Spark goes on and cleans up behind itself.

Spark's files are written once and never changed, so a second name for each (`pins/ID/...` in the home) holds it. A note
beside (`pins/ID.json`) says who needs them and where the savepoint is being written. What is left of a process that is
provably gone is cleared by the next one; of any other nobody can tell whether it is slow or gone, and pins that nobody
needs cost only room. What was pinned is remembered, and a savepoint without all of it is none.
"""

import re
from collections.abc import Callable
from typing import Final

import msgspec

from onceward import holding
from onceward.epoch.checkpoint import NOTES, is_whole
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.state_files import Operator
from onceward.epoch.storage import Storage
from onceward.epoch.term import Holder
from onceward.errors import LedgerCorrupt
from onceward.savepoint.manifest import CHECKPOINT
from onceward.savepoint.needed import (
    Needed,
    NotThere,
    Snapshot,
    Store,
    read_operator,
    read_snapshot,
    sort_out,
)
from onceward.savepoint.place import Place

FORMAT: Final = 1
FOLDER: Final = "pins"
_ID: Final = re.compile(r"[0-9a-f]{8,32}")


def unfinished(identity: str) -> str:
    """The directory in which a savepoint is written; hidden, and named by its id alone."""
    return f".savepoint-{identity}.partial"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Who is making a savepoint, and the unfinished directory of it."""

    format: int = FORMAT
    id: str
    holder: Holder
    path: str = ""  # of the unfinished directory; empty: among the home's own savepoints


class Pins:
    """The pins of one savepoint that is being made."""

    def __init__(self, storage: Storage, note: Note) -> None:
        self._storage = storage
        self._note = note
        self.folder = f"{FOLDER}/{note.id}"
        self.names: set[str] = set()  # of all that was pinned, below the folder
        self.rows: dict[int, int | None] = {}  # by operator, where every store has just been counted
        self.operators = list[Operator]()
        self._checkpoint = f"{self.folder}/{CHECKPOINT}"

    def announce(self) -> None:
        """Before anything is pinned or written: whoever finds it must find out whose it is."""
        self._storage.replace(_file(self._note.id), seal(self._note))

    def pin(self, checkpoint: str, epoch: int) -> str:
        """All that the epoch needs of a checkpoint; `NotThere` if that is no longer whole. The epoch's plan."""
        needed = sort_out(self._storage.walk(checkpoint), epoch)
        for name in needed.plain:
            self._hold(checkpoint, name)
        counted: dict[int, list[int | None]] = {}
        for where, store in needed.stores.items():
            counted.setdefault(where.operator, []).append(self._hold_store(checkpoint, store, needed.version))
        for operator, found in counted.items():
            known = [rows for rows in found if rows is not None]
            self.rows[operator] = sum(known) if len(known) == len(found) else None
        self._require_all(needed)
        plan = self.plan(epoch)
        if not is_whole(self._storage.read(f"{self._checkpoint}/commits/{epoch}") or b"") or plan is None:
            raise NotThere(f"Spark's log of epoch {epoch} was torn by a power cut, and the next start puts it right")
        return plan

    def plan(self, epoch: int) -> str | None:
        """Spark's plan of an epoch; None if it is not there, or not whole."""
        data = self._storage.read(f"{self._checkpoint}/offsets/{epoch}") or b""
        return data.decode() if is_whole(data) else None

    def note(self, name: str) -> bytes | None:
        """What the pipeline's driver has noted."""
        return self._storage.read(f"{self._checkpoint}/{NOTES}/{name}")

    def release(self) -> None:
        """The note goes last: a pin without one has no owner."""
        self._storage.clear(self.folder)
        self._storage.remove(_file(self._note.id))

    def start_over(self) -> None:
        """What was pinned of another epoch goes."""
        self._storage.clear(self.folder)
        self.names.clear()
        self.rows.clear()
        self.operators.clear()

    def _hold(self, checkpoint: str, name: str) -> None:
        if not self._storage.link(f"{checkpoint}/{name}", f"{self._checkpoint}/{name}"):
            raise NotThere(f"{name} went while it was being pinned")
        self.names.add(f"{CHECKPOINT}/{name}")

    def _hold_store(self, checkpoint: str, store: Store, version: int) -> int | None:
        """A snapshot and what follows it; the number of rows, if the snapshot is the version itself."""
        if store.distinct:
            for name in store.up_to(version):
                self._hold(checkpoint, name)
                if name.endswith(".zip"):
                    self._hold_shared(checkpoint, store, name)
            return None
        for at, name in store.snapshots(version):
            self._hold(checkpoint, name)
            snapshot = self._hold_shared(checkpoint, store, name) if name.endswith(".zip") else Snapshot([], None)
            if snapshot is None:  # torn by a power cut: Spark takes the one before it, too
                self._storage.remove(f"{self._checkpoint}/{name}")
                self.names.remove(f"{CHECKPOINT}/{name}")
                continue
            for change in store.changes(at, version):
                self._hold(checkpoint, change)
            return snapshot.rows if at == version else None
        for change in store.changes(0, version):
            self._hold(checkpoint, change)
        return None

    def _hold_shared(self, checkpoint: str, store: Store, name: str) -> Snapshot | None:
        snapshot = read_snapshot(self._storage.read(f"{self._checkpoint}/{name}") or b"")
        for shared in snapshot.shared if snapshot is not None else []:
            if f"{CHECKPOINT}/{store.folder}/{shared}" not in self.names:  # several snapshots share files
                self._hold(checkpoint, f"{store.folder}/{shared}")
        return snapshot

    def _require_all(self, needed: Needed) -> None:
        """Each store of each operator in each partition."""
        for operator, name in needed.metadata.items():
            data = self._storage.read(f"{self._checkpoint}/{name}") or b""
            noted = read_operator(operator, data)
            self.operators.append(noted)
            for store, partitions in noted.stores.items():
                there = {it.partition for it in needed.stores if (it.operator, it.store) == (operator, store)}
                if missing := sorted(set(range(partitions)) - there):
                    raise NotThere(f"operator {operator} ({noted.name}) has no state of partition {missing[0]}")


def clear_leftovers(storage: Storage, within: Callable[[str], Place], report: Callable[[str], None]) -> None:
    """What processes that are gone have left: half of a savepoint, and their pins.

    `within`: a place in the home by its name. What is left alone is told, with the way to be rid of it.
    """
    for name in storage.names(FOLDER):
        note = _read(storage, name)
        if note is None:
            continue
        if not holding.is_gone(note.holder):
            report(f"{note.holder} makes a savepoint, too; if it is gone, remove {FOLDER}/{note.id} of the home")
            continue
        report(f"clearing what {note.holder} left of a savepoint")
        partial = unfinished(note.id)
        half = Place.at(f"{note.path}/{partial}") if note.path else within(partial)
        half.around.clear(half.name)
        Pins(storage, note).release()


def _read(storage: Storage, file: str) -> Note | None:
    """A note is data that anybody may have written: what it names is cleared, so it may only name what is its own."""
    identity = file.removesuffix(".json")
    data = storage.read(f"{FOLDER}/{file}") if file.endswith(".json") and _ID.fullmatch(identity) else None
    try:
        note = unseal(data, Note, f"{FOLDER}/{file}", FORMAT) if data is not None else None
    except LedgerCorrupt:  # whose it is cannot be told, so neither can whether he is gone
        return None
    return note if note is not None and note.id == identity else None


def _file(identity: str) -> str:
    return f"{FOLDER}/{identity}.json"
