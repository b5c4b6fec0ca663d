"""The lineages of a simulated home: where the one in force keeps its files, and what all of them say together."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from onceward.epoch import deeds
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint, TornEntry
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, Ledger
from onceward.epoch.outcome import TopicPartition
from onceward.errors import LedgerCorrupt, OncewardError
from onceward.proof.history import LedgerLine, Place
from onceward.proof.simulation.disk import Mount
from onceward.snapshot.histories import boundaries_of

DECISION: Final = re.compile(r"(?:.*/)?decisions/(\d{12})-\d{6}\.json")


class Lineages:
    """One after the other, each from the epoch with which its savepoint ends."""

    def __init__(self, storage: Mount) -> None:
        self._storage = storage
        self._home = Home(storage, "home", "home")
        self.deeds = _all(storage)

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

    def planned(self) -> dict[int, dict[Place, int]]:
        """How far each epoch reads, by the lineage that counts for it."""
        found: dict[int, dict[Place, int]] = {}
        for deed in self.deeds:
            found = {epoch: ends for epoch, ends in found.items() if epoch <= _base(deed, default=-1)}
            room = self._home.of_lineage(deed)
            checkpoint = Checkpoint.newest(room)
            for name in room.storage.names(f"{checkpoint.folder}/offsets"):
                with suppress(TornEntry):  # only a bug leaves one at the end, and then an epoch is missing here
                    read = checkpoint.read(int(name))
                    found[int(name)] = {(*place,): end for place, end in read.kafka.items()} if read is not None else {}
        return found

    def ledger(self) -> tuple[LedgerLine, ...]:
        found: dict[int, LedgerLine] = {}
        for deed in self.deeds:
            base = _base(deed, default=-1)
            found = {epoch: line for epoch, line in found.items() if epoch <= base}
            ledger = Ledger(self._home.of_lineage(deed).storage, terms.boundaries(self._storage), deed.lineage)
            with suppress(LedgerCorrupt):  # every driver has said so by then
                entries = [e for e in ledger.newest(100) if e.epoch > base]
                stood = boundaries_of([e for e in entries if e.phase == DONE])
                for e in entries:
                    rows = {name: part.rows for name, part in e.sinks.items()}
                    found[e.epoch] = LedgerLine(e.epoch, e.term, e.phase, rows, _plain(stood.get(e.epoch, {})))
        return tuple(found[epoch] for epoch in sorted(found))

    def decisions(self, files: Mapping[str, bytes]) -> tuple[tuple[int, int], ...]:
        """Epoch and term of each, by the lineage that counts for it: what an older one decided after that is over."""
        found: list[tuple[int, int]] = []
        for deed in self.deeds:
            inside = f"{deed.folder}/" if deed.folder else ""
            found = [it for it in found if it[0] <= _base(deed, default=-1)]
            made = [files[name] for name in decided(files) if name.startswith(f"{inside}decisions/")]
            entries = [msgspec.json.decode(data.split(b"\n")[0])["decided"] for data in made]
            found += [(entry["epoch"], entry["term"]) for entry in entries]
        return tuple(found)


def _plain(offsets: Mapping[TopicPartition, tuple[int, ...]]) -> dict[Place, tuple[int, ...]]:
    return {(*place,): found for place, found in offsets.items()}


def decided(files: Mapping[str, bytes]) -> list[str]:
    """The slots with a decision, of all lineages, oldest epoch first."""
    slots = [name for name in files if DECISION.fullmatch(name) and b'"decided":null' not in files[name]]
    return sorted(slots, key=lambda name: name.rpartition("/")[2])


def epoch_of(slot: str) -> int:
    """Which epoch a slot decides."""
    return int(slot.rpartition("/")[2][:12])


def _all(storage: Mount) -> list[Deed]:
    """Those that came to be in force, in their order."""
    found = [first] if (first := deeds.first(storage)) is not None and not first.folder else []
    for name in storage.names(deeds.FOLDER):
        if name.endswith(".lineage"):
            with suppress(OncewardError):  # a damaged slot: every driver has said so by then
                slot = deeds.read(storage, int(name.partition(".")[0]))
                found += [slot.deed] if slot.deed is not None else []
    return found


def _base(deed: Deed, default: int) -> int:
    return deed.origin.begins_after if deed.origin is not None else default
