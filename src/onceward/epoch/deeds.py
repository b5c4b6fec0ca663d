"""Whose home it is, and which lineage is in force: the deed.

A home's first lineage has its deed in pipeline.json. A start from a savepoint begins another one, and so does a reset:
each claims its term's slot, `terms/TERM.lineage`, with the new deed. Every start closes the slots of the terms before
it, so that a restore that was paused and wakes after its successor's start finds its slot taken and changes nothing. A
closed slot says which term's deed is in force, so that one look at the newest slot is enough.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import LedgerCorrupt, PipelineFenced

FORMAT: Final = 2
FILE: Final = "pipeline.json"
FOLDER: Final = "terms"
_SUFFIX: Final = ".lineage"
_FOLDER: Final = re.compile(r"lineages/[0-9A-Za-z][0-9A-Za-z-]*")  # nothing that leads out of the home


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """The savepoint that a lineage began with, or the lineage that a reset ended; and what each sink held then."""

    savepoint: str  # its id; empty: a reset
    pipeline: str
    lineage: str
    epoch: int  # of that lineage; the last one that a reset knew of
    begins_after: int  # the same moment in this lineage: changing the number of partitions takes an epoch
    first_term: int  # of the home, under which this lineage began
    inherits: dict[str, tuple[str, int]] = {}  # by sink, the lineage and epoch that it held: known, and not ours


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """Whose home this is. `folder`: where this lineage's files are; empty: in the home itself."""

    format: int = 1  # 2: other lineages may follow it
    pipeline: str
    lineage: str
    guarantee: str
    folder: str = ""
    origin: Origin | None = None

    @property
    def inherits(self) -> Mapping[str, tuple[str, int]]:
        return self.origin.inherits if self.origin is not None else {}


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """What a term has made of the lineage: another one, or nothing; then `since` is the term whose deed is in force."""

    format: int = FORMAT
    term: int
    deed: Deed | None = None
    since: int = 0  # 0: pipeline.json


def in_force(storage: Storage) -> Deed | None:
    """The deed that counts now; None: nobody's home yet."""
    slots = _slots(storage)
    return _deed(storage, read(storage, slots[-1])) if slots else first(storage)


def first(storage: Storage) -> Deed | None:
    """The deed of the first lineage; None: there is none, or the home began with a savepoint."""
    data = storage.read(FILE)
    deed = unseal(data, Deed, FILE, FORMAT) if data is not None else None
    if deed is not None and deed.folder and not _FOLDER.fullmatch(deed.folder):
        raise LedgerCorrupt(f"{FILE} names {deed.folder!r} as a lineage's folder, which is none: it was forged")
    return deed


def enter(storage: Storage, term: int) -> Deed | None:
    """For the holder of a term: no older term can begin a lineage any more. The deed in force, for good."""
    known = set(_slots(storage))
    for number in (number for number in range(1, term) if number not in known):
        since = _term_in_force(read(storage, number - 1)) if number > 1 else 0
        storage.claim(_name(number), seal(Slot(term=number, since=since)))
    if term == 1:
        return first(storage)
    # Whoever claimed it may have died before it was synced; what follows from it must not outlive it.
    storage.sync(_name(term - 1))
    return _deed(storage, read(storage, term - 1))


def begin(storage: Storage, term: int, deed: Deed) -> None:
    """From here on the home is that of another lineage, whose folder is complete."""
    if not storage.claim(_name(term), seal(Slot(term=term, deed=deed))):
        raise PipelineFenced(
            f"pipeline {deed.pipeline!r}: a newer driver has taken the home over while another lineage was to begin in "
            "it. Nothing has changed; restore once more, or reset once more."
        )
    known = first(storage)
    if known is None:
        storage.claim(FILE, seal(deed))
    elif known.format < FORMAT:  # a release that knows of one lineage only would go on with that one
        storage.replace(FILE, seal(msgspec.structs.replace(known, format=FORMAT)))


def _term_in_force(slot: Slot) -> int:
    return slot.term if slot.deed is not None else slot.since


def _deed(storage: Storage, slot: Slot) -> Deed | None:
    if slot.deed is not None:
        return slot.deed
    if slot.since == 0:
        return first(storage)
    found = read(storage, slot.since)
    if found.deed is None:
        raise LedgerCorrupt(f"{_name(slot.term)} refers to {_name(slot.since)}, which has no deed: files were swapped")
    return found.deed


def read(storage: Storage, term: int) -> Slot:
    """A term's slot, which must be there."""
    name = _name(term)
    data = storage.read(name)
    if data is None:
        raise LedgerCorrupt(f"{name} is missing: which lineage is in force cannot be told. Restore the home's terms/.")
    slot = unseal(data, Slot, name, FORMAT)
    if slot.term != term:
        raise LedgerCorrupt(f"{name} is of term {slot.term}: files were swapped")
    if slot.deed is not None and not _FOLDER.fullmatch(slot.deed.folder):
        raise LedgerCorrupt(f"{name} names {slot.deed.folder!r} as a lineage's folder, which is none: it was forged")
    return slot


def _slots(storage: Storage) -> list[int]:
    names = [name.removesuffix(_SUFFIX) for name in storage.names(FOLDER) if name.endswith(_SUFFIX)]
    return sorted(int(name) for name in names if name.isdigit())


def _name(term: int) -> str:
    return f"{FOLDER}/{term:06d}{_SUFFIX}"
