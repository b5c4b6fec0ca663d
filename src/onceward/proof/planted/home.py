"""Planted bugs of the home: ledger, decisions, terms, journal, recovery. None of this is on the shipped path."""

from collections.abc import Mapping
from math import inf

import msgspec

from onceward.epoch import ledger
from onceward.epoch.checkpoint import Checkpoint, Positions
from onceward.epoch.contract import EpochContext, LastCommit
from onceward.epoch.coordinator import Attempted
from onceward.epoch.decisions import Decisions, Slot
from onceward.epoch.deeds import Deed
from onceward.epoch.expected import NEVER, Expected, Held, recorded
from onceward.epoch.journal import Journal
from onceward.epoch.ledger import Entry, Ledger
from onceward.epoch.ports import Batch
from onceward.epoch.recovery import Known, Recovered
from onceward.epoch.runner import EpochRunner
from onceward.epoch.sealed import seal
from onceward.epoch.storage import Storage
from onceward.epoch.takeover import TakeOver
from onceward.epoch.term import Term


def writes_fragile(self: Ledger, entry: Entry) -> None:
    """An entry is there, but a power cut may take it."""
    self._storage.replace(ledger._name(entry.epoch, entry.term), seal(entry), sync=False)  # noqa: SLF001 - a bug


def believes_at_once(self: Decisions, slots: list[Slot]) -> Entry | None:  # noqa: ARG001 - nothing is synced
    """What another driver has claimed is believed before it lasts."""
    return next((slot.decided for slot in slots if slot.decided is not None), None)


def syncs_nothing(*_: object) -> None:
    """What somebody else wrote counts before it lasts."""


class ClosesNothing(Decisions):
    """A start looks, but leaves the slot open for a driver that was paused before its decision."""

    def close(self, epoch: int) -> Entry | None:
        self._own[epoch] = len(self._slots(epoch))
        return self.of(epoch)


class LooksTwice(Decisions):
    """A decision that falls between the two looks is overlooked."""

    def close(self, epoch: int) -> Entry | None:
        while True:
            if (decided := self.of(epoch)) is not None:
                return decided
            free = max((slot for found, slot in self._all() if found == epoch), default=-1) + 1
            if self._claim(epoch, free, None):
                self._own[epoch] = free + 1
                return None


class IgnoresTheRefusal(Decisions):
    """The slot is taken, and the driver goes on."""

    def decide(self, entry: Entry) -> None:
        self._claim(entry.epoch, self._own.get(entry.epoch, 0), entry)


class AnyTermCloses(Decisions):
    """An older start may close an epoch after a newer one."""

    def close(self, epoch: int) -> Entry | None:
        own, self._term = self._term, 10**6
        try:
            return super().close(epoch)
        finally:
            self._term = own


class NeverFenced(Term):
    """Nobody asks whether a newer term exists."""

    def require_current(self) -> None:
        pass


class BelievesOldTerms(Ledger):
    """The votes of whichever term comes first, not of the one whose decision counts."""

    def read_of(self, epoch: int, term: int) -> Entry | None:
        terms = [found for number, found in self._all() if number == epoch]
        return super().read_of(epoch, min([*terms, term]))


class NothingPrepared(Journal):
    """Kafka is asked to decide before the other sinks' votes are durable."""

    def prepare(self, attempted: Attempted) -> None:
        pass


class PositionsNotSynced(Journal):
    """The decision may outlive the offset log entry it is about."""

    def _sync(self) -> None:
        pass


class PredecessorNotRecorded(Journal):
    """An epoch is decided while the one before it is still on its way into the ledger."""

    def ready(self) -> None:
        self.positions_synced()
        self.runner.taken.term.require_current()


class ForgettingUnnoticed(Journal):
    """Nobody asks a sink between two starts what it still holds."""

    def open(self) -> None:
        self.runner.establish_marker(self.context)


class SkipsReplay(EpochRunner):
    """The epoch is committed, so it is not run again; but its state is what the next one begins with."""

    def replay(self, context: EpochContext, positions: Positions, batch: Batch) -> None:
        pass


class RedoesDecided(TakeOver):
    """Only what is done counts; what is decided is done again."""

    def _conclude(self, known: Known, markers: Mapping[str, LastCommit | None]) -> Recovered:
        super()._conclude(known, markers)
        return Recovered(known.done)


class ForgetsUnfinished(TakeOver):
    """What is decided is taken for finished."""

    def _conclude(self, known: Known, markers: Mapping[str, LastCommit | None]) -> Recovered:
        found = super()._conclude(known, markers)
        return Recovered(found.committed, found.last)


class SharesTheCheckpoint(TakeOver):
    """All terms write the engine's logs into one folder, and what they say is believed."""

    def _adopt(self) -> Checkpoint:
        return Checkpoint(self.home.storage, "checkpoint", "checkpoint")

    def _put_right(self, checkpoint: Checkpoint, recovered: Recovered) -> list[str]:
        return checkpoint.clear_torn(recovered.committed)


class BelievesTheLog(TakeOver):
    """Positions in the engine's log are not compared with those that were committed."""

    def _put_right(self, checkpoint: Checkpoint, recovered: Recovered) -> list[str]:
        return checkpoint.clear_torn(recovered.committed)


def passes_over_births(terms: Storage, deed: Deed, last: Entry | None, upto: float = inf) -> dict[str, Held]:
    """A marker that is gone is taken for one that was never written."""
    return {sink: held for sink, held in recorded(terms, deed, last, upto).items() if held[1] != NEVER}


class DeciderByName(TakeOver):
    """The ledger as decider is a word, and a sink has that name."""

    def _roll_forward(self, entry: Entry) -> str:
        kept = {name: part for name, part in entry.sinks.items() if name != "ledger"}
        return super()._roll_forward(msgspec.structs.replace(entry, sinks=kept))


class AbortsInDoubt(TakeOver):
    """What older drivers have left is thrown away before anybody asks whether it is decided."""

    def _find_out(self, checkpoint: Checkpoint, expected: Expected) -> tuple[Recovered, dict[str, LastCommit | None]]:
        self.coordinator.abort(EpochContext(epoch=10**6, attempt=0))
        return super()._find_out(checkpoint, expected)
