"""The ledger as decider: for each epoch a row of slots, each taken once and for ever, by whoever is first.

A driver decides by claiming its slot. A start first claims, as void, the slot that a driver before it could still
claim, and takes the next one for itself. So a driver that was paused just before its decision and wakes after its
successor's start finds its slot taken: it has not decided, and adds nothing (docs/decisions/0008).
"""

import re
from typing import Final

import msgspec

from onceward.epoch.ledger import FORMAT as ENTRY_FORMAT
from onceward.epoch.ledger import RETAIN, Entry
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import CommitUnproven, HomeMismatch, LedgerCorrupt, PipelineFenced

FORMAT: Final = 1
FOLDER: Final = "decisions"
_NAME: Final = re.compile(r"(\d{12})-(\d{6})\.json")


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed slot: the epoch as it was decided, or nothing (void)."""

    format: int = FORMAT
    lineage: str
    epoch: int
    slot: int
    term: int
    decided: Entry | None = None


class Decisions:
    """Reads and claims a home's slots, on behalf of one term."""

    def __init__(self, storage: Storage, lineage: str, term: int) -> None:
        self._storage = storage
        self._lineage = lineage
        self._term = term
        self._own: dict[int, int] = {}  # for each epoch that this start closed to others, its own slot

    def last(self) -> Entry | None:
        """The newest decided epoch."""
        for epoch in sorted({epoch for epoch, _ in self._all()}, reverse=True):
            if (decided := self.of(epoch)) is not None:
                return decided
        return None

    def of(self, epoch: int) -> Entry | None:
        """The epoch as it was decided, if it was."""
        return self._decided(self._slots(epoch))

    def close(self, epoch: int) -> Entry | None:
        """From now on no earlier driver can decide this epoch; its decision, if one was quicker."""
        while True:
            # Looked at once: what is claimed after this look, a decision too, makes our own claim fail.
            slots = self._slots(epoch)
            if (decided := self._decided(slots)) is not None:
                return decided
            newest = max((slot.term for slot in slots), default=0)
            if newest > self._term:
                raise PipelineFenced(
                    f"epoch {epoch} is closed by the driver of term {newest}; this one, of term {self._term}, was "
                    "paused before it began, and stops"
                )
            free = slots[-1].slot + 1 if slots else 0
            if self._claim(epoch, free, None):
                self._own[epoch] = free + 1
                return None

    def decide(self, entry: Entry) -> None:
        """The decision: durable and for ever, or `PipelineFenced`."""
        slot = self._own.get(entry.epoch, 0)
        while not self._claim(entry.epoch, slot, entry):
            holder = self._read(entry.epoch, slot)
            if holder.decided is not None or holder.term > self._term:
                raise PipelineFenced(
                    f"pipeline {entry.pipeline!r}, epoch {entry.epoch}: the driver of term {holder.term} has taken "
                    f"over; this one, of term {self._term}, has not decided and stops. Nothing of its try is visible."
                )
            slot += 1  # void, by an older driver that was paused in its start: it cannot fence a newer one
        if entry.epoch % 100 == 0:
            self._forget(entry.epoch - RETAIN)

    def _claim(self, epoch: int, slot: int, decided: Entry | None) -> bool:
        mine = Slot(lineage=self._lineage, epoch=epoch, slot=slot, term=self._term, decided=decided)
        try:
            return self._storage.claim(_name(epoch, slot), seal(mine))
        except OSError as error:
            # It may have been written all the same: then it counts, and nobody may think otherwise.
            try:
                found = self._storage.read(_name(epoch, slot))
                if found is not None:
                    self._storage.sync(_name(epoch, slot))
            except OSError:
                raise _unproven(epoch, slot, error) from error
            if found is None and decided is None:
                raise
            if found is None:
                raise _unproven(epoch, slot, error) from error
            return found == seal(mine)

    def _slots(self, epoch: int) -> list[Slot]:
        return [self._read(epoch, slot) for found, slot in self._all() if found == epoch]

    def _decided(self, slots: list[Slot]) -> Entry | None:
        for slot in slots:
            if slot.decided is not None:
                # Whoever claimed it may have died before it was synced; what follows from it must not outlive it.
                self._storage.sync(_name(slot.epoch, slot.slot))
                return slot.decided
        return None

    def _read(self, epoch: int, number: int) -> Slot:
        name = _name(epoch, number)
        data = self._storage.read(name)
        if data is None:
            raise LedgerCorrupt(f"{name} has disappeared while it was being read")
        slot = unseal(data, Slot, name, FORMAT)
        if slot.decided is not None and slot.decided.format > ENTRY_FORMAT:
            raise HomeMismatch(
                f"{name} holds an entry of format {slot.decided.format}, written by a newer Onceward; this one reads "
                f"up to {ENTRY_FORMAT}"
            )
        if slot.lineage != self._lineage:
            raise LedgerCorrupt(f"{name} is of lineage {slot.lineage}, the home of {self._lineage}: files were swapped")
        if (slot.epoch, slot.slot) != (epoch, number):
            raise LedgerCorrupt(f"{name} holds slot {slot.slot} of epoch {slot.epoch}: files were swapped")
        return slot

    def _forget(self, oldest: int) -> None:
        for epoch, slot in self._all():
            if epoch < oldest:
                self._storage.remove(_name(epoch, slot))

    def _all(self) -> list[tuple[int, int]]:
        matches = (_NAME.fullmatch(name) for name in self._storage.names(FOLDER))
        return sorted((int(match[1]), int(match[2])) for match in matches if match)


def _unproven(epoch: int, slot: int, error: OSError) -> CommitUnproven:
    return CommitUnproven(
        f"epoch {epoch}: whether its decision {_name(epoch, slot)} was written could not be learned ({error}). "
        "Nothing is lost: the next start reads it and goes on from there."
    )


def _name(epoch: int, slot: int) -> str:
    return f"{FOLDER}/{epoch:012d}-{slot:06d}.json"
