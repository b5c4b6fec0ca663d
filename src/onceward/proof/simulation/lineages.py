"""The lineages of a simulated home: where the one in force keeps its files, and what all of them say together."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from onceward.epoch import decisions, deeds, skips
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint, TornEntry, offsets_of
from onceward.epoch.decisions import Slot
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, STARTED, Entry, Ledger
from onceward.epoch.outcome import TopicPartition
from onceward.errors import LedgerCorrupt, OncewardError
from onceward.proof.history import LedgerLine, Place
from onceward.proof.simulation.disk import Mount
from onceward.proof.simulation.engine import TOPIC, ends_of, place_of
from onceward.snapshot.histories import boundaries_of

DECISION: Final = re.compile(r"(?:.*/)?decisions/(\d{12})-\d{6}\.json")


@dataclass(frozen=True, slots=True)
class Past:
    """What the original of a copied pipeline had done by then."""

    shifts: Mapping[str, int] = field(default_factory=dict)
    planned: Mapping[int, Mapping[Place, int]] = field(default_factory=dict)
    ledger: tuple[LedgerLine, ...] = ()


NOTHING: Final = Past()


class Lineages:
    """One after the other, each from the epoch with which its savepoint ends."""

    def __init__(self, storage: Mount, past: Past = NOTHING) -> None:
        self._storage, self._past = storage, past
        self._home = Home(storage, "home", "home")
        self.deeds, self._dropped = _all(storage)
        self._shifts = _shifts(self.deeds, past)

    @property
    def as_past(self) -> Past:
        """For a copy that is made now."""
        return Past(self._shifts, self.planned(), self.ledger())

    def shift_of(self, lineage: str) -> int:
        """What makes of a lineage's epochs those of all together: a reset counts anew, rescaling uses one up."""
        return self._shifts.get(lineage, 0)

    @property
    def in_force(self) -> int:
        """The shift of the lineage in force."""
        return self.shift_of(self.deeds[-1].lineage) if self.deeds else 0

    @property
    def folder(self) -> str:
        """The checkpoint of the lineage in force, below the home."""
        deed = self.deeds[-1] if self.deeds else None
        inside = Checkpoint.newest(self._home.of_lineage(deed) if deed is not None else self._home).folder
        return f"{deed.folder}/{inside}" if deed is not None and deed.folder else inside

    @property
    def checkpoint(self) -> Checkpoint:
        folder = self.folder
        return Checkpoint(self._storage, folder, folder)

    def planned(self) -> Mapping[int, Mapping[Place, int]]:
        """How far each epoch reads, by the lineage that counts for it."""
        found: dict[int, Mapping[Place, int]] = dict(self._past.planned)
        for deed in self.deeds:
            base = self._base(deed)
            found = {epoch: ends for epoch, ends in found.items() if epoch <= base}
            room, shift = self._home.of_lineage(deed), self.shift_of(deed.lineage)
            checkpoint = Checkpoint.newest(room)
            if deed.lineage in self._dropped:  # what is there now was written by somebody who is overtaken
                ledger = Ledger(room.storage, self._boundaries(deed), deed.lineage)
                ended = {e.epoch: e.positions for e in ledger.newest(100) if e.phase == DONE and e.positions}
                found.update({epoch + shift: _ends(texts) for epoch, texts in ended.items() if epoch + shift > base})
                continue
            for epoch in map(int, room.storage.names(f"{checkpoint.folder}/offsets")):
                with suppress(TornEntry):  # only a bug leaves one at the end, and then an epoch is missing here
                    read = checkpoint.read(epoch) if epoch + shift > base else None
                    found |= {epoch + shift: _ends(read.texts)} if read is not None else {}
        return found

    def ledger(self) -> tuple[LedgerLine, ...]:
        found = {line.epoch: line for line in self._past.ledger}
        for deed in self.deeds:
            base, shift = self._base(deed), self.shift_of(deed.lineage)
            found = {epoch: line for epoch, line in found.items() if epoch <= base}
            room = self._home.of_lineage(deed)
            ledger = Ledger(room.storage, self._boundaries(deed), deed.lineage)
            for e in _begun(room):
                found[e.epoch + shift] = LedgerLine(e.epoch + shift, e.term, e.phase, {}, {}, _skipped(e))
            with suppress(LedgerCorrupt):  # every driver has said so by then
                entries = [e for e in ledger.newest(100) if e.epoch + shift > base]
                stood = boundaries_of([e for e in entries if e.phase == DONE])
                for e in entries:
                    rows = {name: part.rows for name, part in e.sinks.items()}
                    at = e.epoch + shift
                    found[at] = LedgerLine(at, e.term, e.phase, rows, _plain(stood.get(e.epoch, {})), _skipped(e))
        return tuple(found[epoch] for epoch in sorted(found))

    def passed(self) -> frozenset[tuple[int, int]]:
        """Records that epochs have left out, as place and offset."""
        return frozenset((place[1], offset) for line in self.ledger() for place, offset in line.skipped)

    def decisions(self, files: Mapping[str, bytes]) -> tuple[tuple[int, int], ...]:
        """Epoch and term of each, by the lineage that counts for it: what an older one decided after that is over."""
        found: list[tuple[int, int]] = []
        for deed in self.deeds:
            inside = f"{deed.folder}/" if deed.folder else ""
            found = [it for it in found if it[0] <= self._base(deed)]
            made = [files[name] for name in decided(files) if name.startswith(f"{inside}decisions/")]
            entries = [msgspec.json.decode(data.split(b"\n")[0])["decided"] for data in made]
            found += [(entry["epoch"] + self.shift_of(deed.lineage), entry["term"]) for entry in entries]
        return tuple(found)

    def _boundaries(self, deed: Deed) -> dict[int, int]:
        """Of the terms up to the next lineage's: where epochs are counted anew, its terms say nothing about these."""
        later = [it.origin.first_term for it in self.deeds[self.deeds.index(deed) + 1 :] if it.origin is not None]
        found = terms.boundaries(self._storage)
        return {term: epoch for term, epoch in found.items() if term < min(later, default=term + 1)}

    def decided(self, files: Mapping[str, bytes]) -> frozenset[int]:
        """Every epoch that the ledger of any lineage has decided."""
        found = set[int]()
        for slot in decided(files):
            folder = slot.rpartition("decisions/")[0].rstrip("/")
            deed = next((it for it in self.deeds if it.folder == folder), None)
            found.add(epoch_of(slot) + (self.shift_of(deed.lineage) if deed is not None else 0))
        return frozenset(found)

    def _base(self, deed: Deed) -> int:
        """After which epoch a lineage begins."""
        return (deed.origin.begins_after if deed.origin is not None else -1) + self.shift_of(deed.lineage)


def _plain(offsets: Mapping[TopicPartition, tuple[int, ...]]) -> dict[Place, tuple[int, ...]]:
    return {(*place,): found for place, found in offsets.items()}


def _begun(room: Home) -> Iterator[Entry]:
    """Epochs that are written once: of one that was given up the ledger says nothing. Whoever looks syncs nothing."""
    for name in room.storage.names(decisions.FOLDER):
        entry = msgspec.json.decode((room.storage.read(f"{decisions.FOLDER}/{name}") or b"").split(b"\n")[0], type=Slot)
        if entry.decided is not None and entry.decided.phase == STARTED:
            yield entry.decided


def _ends(texts: list[str]) -> dict[Place, int]:
    return {(TOPIC, place): end for place, end in ends_of(map(offsets_of, texts)).items()}


def _skipped(entry: Entry) -> frozenset[tuple[Place, int]]:
    found = (skips.parse(text) for text in entry.skipped)
    places = [place_of(source or 0, partition, offset) for source, _, partition, offset in found]
    return frozenset(((TOPIC, place), offset) for place, offset in places)


def decided(files: Mapping[str, bytes]) -> list[str]:
    """The slots with a decision, of all lineages, oldest epoch first."""
    slots = [name for name in files if DECISION.fullmatch(name) and b'"decided":null' not in files[name]]
    return sorted(slots, key=lambda name: name.rpartition("/")[2])


def epoch_of(slot: str) -> int:
    """Which epoch a slot decides."""
    return int(slot.rpartition("/")[2][:12])


def _all(storage: Mount) -> tuple[list[Deed], set[str]]:
    """Those that came to be in force, in their order; and which of them have ended for good."""
    found = [first] if (first := deeds.first(storage)) is not None and not first.folder else []
    dropped = set[str]()
    for name in storage.names(deeds.FOLDER):
        if name.endswith(".lineage"):
            with suppress(OncewardError):  # a damaged slot: every driver has said so by then
                slot = deeds.read(storage, int(name.partition(".")[0]))
                found += [slot.deed] if slot.deed is not None else []
                dropped |= {found[-1].lineage} if slot.ended is not None else set()
    return found, dropped


def _shifts(found: list[Deed], past: Past) -> dict[str, int]:
    """A restored lineage goes on with its savepoint's numbers, or one later; one of a reset begins with 0."""
    shifts = dict(past.shifts)
    for deed in found:
        origin = deed.origin
        before = shifts.get(origin.lineage, 0) + origin.epoch - origin.begins_after if origin is not None else 0
        shifts[deed.lineage] = before
    return shifts
