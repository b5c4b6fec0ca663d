"""Planted bugs of the home: ledger, decisions, terms, journal, recovery. None of this is on the shipped path."""

from collections.abc import Mapping

from onceward.epoch.contract import EpochContext, LastCommit
from onceward.epoch.coordinator import Attempted
from onceward.epoch.decisions import Decisions
from onceward.epoch.ledger import Entry, Ledger
from onceward.epoch.recovery import NEVER, Recovered
from onceward.epoch.takeover import TakeOver
from onceward.epoch.term import Term
from onceward.pipeline.checkpoint import Positions
from onceward.proof.simulation.disk import Mount
from onceward.proof.simulation.driver import Journal, Runner
from onceward.proof.simulation.engine import Batch


class UnsyncedMount(Mount):
    """The ledger's writes are there, but a power cut may take them."""

    def __init__(self, mount: Mount) -> None:
        super().__init__(mount._disk, mount._enter, mount._step)  # noqa: SLF001 - a bug may look inside

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        super().replace(name, data, sync=sync and not name.startswith("ledger/"))

    def claim(self, name: str, data: bytes) -> bool:
        if not name.startswith("decisions/"):
            return super().claim(name, data)
        self._step("claim", name)
        if name in self._disk.files:
            return False
        self._disk.put(name, data)
        return True

    def sync(self, name: str) -> None:
        if not name.startswith(("ledger/", "decisions/")):
            super().sync(name)


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

    def ready(self) -> None:
        self.runner.await_record()
        self.runner.run.term.require_current()


class PredecessorNotRecorded(Journal):
    """An epoch is decided while the one before it is still on its way into the ledger."""

    def ready(self) -> None:
        self.runner.checkpoint.sync_positions(self.context.epoch)
        self.runner.run.term.require_current()


class SkipsReplay(Runner):
    """The epoch is out, so it is not run again; but its state is what the next one begins with."""

    def replay(self, context: EpochContext, positions: Positions, batch: Batch) -> None:
        pass


class RedoesDecided(TakeOver):
    """Only what is done counts; what is decided is done again."""

    def _conclude(
        self, recorded: Entry | None, lasts: Mapping[str, LastCommit | None], *, trust_ledger: bool
    ) -> Recovered:
        super()._conclude(recorded, lasts, trust_ledger=trust_ledger)
        return Recovered(recorded.epoch if recorded is not None else NEVER)


class ForgetsUnfinished(TakeOver):
    """What is decided is taken for finished."""

    def _conclude(
        self, recorded: Entry | None, lasts: Mapping[str, LastCommit | None], *, trust_ledger: bool
    ) -> Recovered:
        found = super()._conclude(recorded, lasts, trust_ledger=trust_ledger)
        return Recovered(found.committed, found.last)
