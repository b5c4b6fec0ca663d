"""Keeping what a savepoint needs, while Spark goes on and cleans up behind itself.

Spark's files are written once and never changed, so a second name for each (`pins/ID/...` in the home) holds it. A note
beside (`pins/ID.json`) says who needs them and where the savepoint is being written: what a dead process has left is
cleared by the next one, the work of a living one is not.
"""

import os
import re
import socket
from collections.abc import Callable
from typing import Final

import msgspec

from onceward import processes
from onceward.epoch.checkpoint import is_whole
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import LedgerCorrupt
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
STILL_S: Final = 10.0  # of another machine: a note that stands still this long has nobody behind it
POLL_S: Final = 0.2
NOBODY: Final = 0  # no process has this number
_ID: Final = re.compile(r"[0-9a-f]{8,32}")


def unfinished(identity: str) -> str:
    """The directory in which a savepoint is written; hidden, and named by its id alone."""
    return f".savepoint-{identity}.partial"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Who is making a savepoint, and the unfinished directory of it."""

    format: int = FORMAT
    id: str
    host: str
    machine: str
    pid: int
    process_start: str
    since: str
    path: str  # of the unfinished directory; empty: among the home's own savepoints
    name: str
    beat: int = 0

    @classmethod
    def of_this_process(cls, identity: str, since: str, *, path: str, name: str) -> "Note":
        return cls(
            id=identity,
            host=socket.gethostname(),
            machine=processes.machine(),
            pid=os.getpid(),
            process_start=processes.started(os.getpid()),
            since=since,
            path=path,
            name=name,
        )

    @classmethod
    def of_nobody(cls, identity: str) -> "Note":
        """What is left of it is known by its id alone."""
        name, unknown = unfinished(identity), "?"
        return cls(
            id=identity, host=unknown, machine="", pid=NOBODY, process_start="", since=unknown, path="", name=name
        )

    @property
    def is_of_here(self) -> bool:
        """Of a machine whose processes can be seen from here."""
        return bool(self.machine) and self.machine == processes.machine()

    @property
    def is_dead(self) -> bool:
        return self.pid == NOBODY or (self.is_of_here and processes.started(self.pid) != self.process_start)


class Pins:
    """The pins of one savepoint that is being made."""

    def __init__(self, storage: Storage, note: Note) -> None:
        self._storage = storage
        self._note = note
        self.folder = f"{FOLDER}/{note.id}"
        self.rows: dict[int, int | None] = {}  # by operator, where every store has just been counted
        self.operators: dict[int, tuple[str, dict[str, int]]] = {}

    def announce(self) -> None:
        """Before anything is pinned or written: whoever finds it must find out whose it is."""
        self._storage.replace(_file(self._note.id), seal(self._note), sync=False)

    def beat(self) -> None:
        """Still alive, for those who cannot see this process."""
        self._note = msgspec.structs.replace(self._note, beat=self._note.beat + 1)
        self.announce()

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
        commit, plan = (self._storage.read(f"{self.folder}/{log}/{epoch}") or b"" for log in ("commits", "offsets"))
        if not is_whole(commit) or not is_whole(plan):
            raise NotThere(f"Spark's log of epoch {epoch} was torn by a power cut, and the next start puts it right")
        return plan.decode()

    def release(self) -> None:
        """The note goes last: a pin without one has no owner."""
        self._storage.clear(self.folder)
        self._storage.remove(_file(self._note.id))

    def start_over(self) -> None:
        """What was pinned of another epoch goes."""
        self._storage.clear(self.folder)
        self.rows.clear()
        self.operators.clear()

    def _hold(self, checkpoint: str, name: str) -> None:
        if not self._storage.link(f"{checkpoint}/{name}", f"{self.folder}/{name}"):
            raise NotThere(f"{name} went while it was being pinned")

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
                self._storage.remove(f"{self.folder}/{name}")
                continue
            for change in store.changes(at, version):
                self._hold(checkpoint, change)
            return snapshot.rows if at == version else None
        for change in store.changes(0, version):
            self._hold(checkpoint, change)
        return None

    def _hold_shared(self, checkpoint: str, store: Store, name: str) -> Snapshot | None:
        snapshot = read_snapshot(self._storage.read(f"{self.folder}/{name}") or b"")
        for shared in snapshot.shared if snapshot is not None else []:
            if f"{store.folder}/{shared}" not in self._held(store):
                self._hold(checkpoint, f"{store.folder}/{shared}")
        return snapshot

    def _held(self, store: Store) -> set[str]:
        """Where versions carry ids, several snapshots share files."""
        if not store.distinct:
            return set()
        return {f"{store.folder}/{name}" for name in self._storage.walk(f"{self.folder}/{store.folder}")}

    def _require_all(self, needed: Needed) -> None:
        """Each store of each operator in each partition."""
        for operator, name in needed.metadata.items():
            data = self._storage.read(f"{self.folder}/{name}") or b""
            self.operators[operator] = title, stores = read_operator(data)
            for store, partitions in stores.items():
                there = {it.partition for it in needed.stores if (it.operator, it.store) == (operator, store)}
                if missing := sorted(set(range(partitions)) - there):
                    raise NotThere(f"operator {operator} ({title}) has no state of partition {missing[0]}")


def clear_leftovers(
    storage: Storage,
    within: Callable[[str], Place],
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    report: Callable[[str], None],
) -> None:
    """What dead processes have left: half of a savepoint, and their pins. `within`: a place in the home by its name."""
    for name in storage.names(FOLDER):
        note = _read(storage, name)
        if note is not None and (note.is_dead or (not note.is_of_here and _stands_still(storage, note, clock, sleep))):
            report(f"clearing what process {note.pid} on {note.host} left of a savepoint it began at {note.since}")
            half = Place.at(f"{note.path}/{note.name}") if note.path else within(note.name)
            half.around.clear(half.name)
            Pins(storage, note).release()


def _stands_still(storage: Storage, note: Note, clock: Callable[[], float], sleep: Callable[[float], None]) -> bool:
    until = clock() + STILL_S
    while clock() < until:
        sleep(POLL_S)
        now = _read(storage, f"{note.id}.json")
        if now is None or now.beat != note.beat:
            return False
    return True


def _read(storage: Storage, file: str) -> Note | None:
    """A note is data that anybody may have written: what it names is cleared, so it may only name what is its own."""
    identity = file.removesuffix(".json")
    data = storage.read(f"{FOLDER}/{file}") if file.endswith(".json") and _ID.fullmatch(identity) else None
    if data is None:
        return None
    try:
        note = unseal(data, Note, f"{FOLDER}/{file}", FORMAT)
    except LedgerCorrupt:  # never synced: whoever wrote it has lost power since
        return Note.of_nobody(identity)
    return note if (note.id, note.name) == (identity, unfinished(identity)) else Note.of_nobody(identity)


def _file(identity: str) -> str:
    return f"{FOLDER}/{identity}.json"
