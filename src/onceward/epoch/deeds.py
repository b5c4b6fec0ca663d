"""Whose home it is, and which lineage is in force: the deed.

A home's first lineage has its deed in pipeline.json. A start from a savepoint begins another one, and so does a reset:
each claims its term's slot, `terms/TERM.lineage`, with the new deed. A pipeline that ends for good claims a slot, too.
Every start closes the slots of the terms before it, so that whoever was paused and wakes after its successor's start
finds its slot taken and changes nothing. A closed slot says which term's slot counts, so that one look at the newest
one is enough.
"""

import re
from typing import Final

import msgspec

from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import LedgerCorrupt, PipelineFenced

FORMAT: Final = 1
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
    held: dict[str, tuple[str, int]] = {}  # by sink, also of those that were out: the lineage and epoch that it held


class Deed(msgspec.Struct, frozen=True, kw_only=True):
    """Whose home this is. `folder`: where this lineage's files are; empty: in the home itself."""

    format: int = FORMAT
    pipeline: str
    lineage: str
    guarantee: str
    folder: str = ""
    origin: Origin | None = None


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline has ended for good: its checkpoint is not retained."""

    epoch: int  # the last committed one
    reason: str
    retain: str
    at: str

    def __str__(self) -> str:
        return (
            f"ended after epoch {self.epoch}, at {self.at} ({self.reason}), with retain={self.retain!r}: its "
            "checkpoint is gone"
        )


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """What a term has made of the lineage: another one, its end, or nothing; `since`: the term whose slot counted."""

    format: int = FORMAT
    term: int
    deed: Deed | None = None
    ended: Ended | None = None
    since: int = 0  # 0: pipeline.json


def in_force(storage: Storage) -> Deed | None:
    """The deed that counts now; None: nobody's home yet."""
    return _deed(storage, _newest(storage))


def ended(storage: Storage) -> Ended | None:
    """How the pipeline has ended for good; None: it has not, or something else began since."""
    slot = _newest(storage)
    return slot.ended if slot is not None else None


def first(storage: Storage) -> Deed | None:
    """The deed of the first lineage; None: there is none, or the home began with a savepoint."""
    data = storage.read(FILE)
    deed = unseal(data, Deed, FILE, FORMAT) if data is not None else None
    if deed is not None and deed.folder:
        raise LedgerCorrupt(f"{FILE} names {deed.folder!r} as its lineage's folder, and has none: it was forged")
    return deed


def enter(storage: Storage, term: int) -> Deed | None:
    """For the holder of a term: no older term can change the lineage any more. The deed in force, for good."""
    known = set(_slots(storage))
    for number in (number for number in range(1, term) if number not in known):
        since = _term_that_counts(read(storage, number - 1)) if number > 1 else 0
        storage.claim(_name(number), seal(Slot(term=number, since=since)))
    if term == 1:
        return first(storage)
    # Whoever claimed it may have died before it was synced; what follows from it must not outlive it.
    storage.sync(_name(term - 1))
    return _deed(storage, _counting(storage, read(storage, term - 1)))


def begin(storage: Storage, term: int, deed: Deed) -> None:
    """From here on the home is that of another lineage, whose folder is complete."""
    if not storage.claim(_name(term), seal(Slot(term=term, deed=deed))):
        raise PipelineFenced(
            f"pipeline {deed.pipeline!r}: a newer driver has taken the home over while another lineage was to begin in "
            "it. Nothing has changed; restore once more, or reset once more."
        )


def end(storage: Storage, term: int, how: Ended) -> bool:
    """From here on nobody starts from the checkpoint any more. False: a newer start was quicker."""
    since = _term_that_counts(read(storage, term - 1)) if term > 1 else 0
    return storage.claim(_name(term), seal(Slot(term=term, ended=how, since=since)))


def read(storage: Storage, term: int) -> Slot:
    """A term's slot, which must be there."""
    name = _name(term)
    data = storage.read(name)
    if data is None:
        raise LedgerCorrupt(f"{name} is missing: which lineage is in force cannot be told. Restore the home's terms/.")
    slot = unseal(data, Slot, name, FORMAT)
    if slot.term != term or slot.since >= term:
        raise LedgerCorrupt(f"{name} is of term {slot.term}, since {slot.since}: files were swapped")
    if slot.deed is not None and not _FOLDER.fullmatch(slot.deed.folder):
        raise LedgerCorrupt(f"{name} names {slot.deed.folder!r} as a lineage's folder, which is none: it was forged")
    return slot


def _newest(storage: Storage) -> Slot | None:
    """The newest slot that says something; None: the home is still at its first lineage, or nobody's."""
    slots = _slots(storage)
    return _counting(storage, read(storage, slots[-1])) if slots else None


def _counting(storage: Storage, slot: Slot) -> Slot | None:
    """This slot, or the one that it refers to."""
    counts = _term_that_counts(slot)
    if counts in {0, slot.term}:
        return slot if counts else None
    found = read(storage, counts)
    if _term_that_counts(found) != counts:
        raise LedgerCorrupt(f"{_name(slot.term)} refers to {_name(counts)}, which has no deed: files were swapped")
    return found


def _term_that_counts(slot: Slot) -> int:
    return slot.since if slot.deed is None and slot.ended is None else slot.term


def _deed(storage: Storage, slot: Slot | None) -> Deed | None:
    """Of a slot that says something: its own, or that of the lineage that has ended."""
    if slot is not None and slot.deed is None:
        slot = read(storage, slot.since) if slot.since else None
    return slot.deed if slot is not None else first(storage)


def _slots(storage: Storage) -> list[int]:
    names = [name.removesuffix(_SUFFIX) for name in storage.names(FOLDER) if name.endswith(_SUFFIX)]
    return sorted(int(name) for name in names if name.isdigit())


def _name(term: int) -> str:
    return f"{FOLDER}/{term:06d}{_SUFFIX}"
