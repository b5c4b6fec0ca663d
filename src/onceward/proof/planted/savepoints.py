"""Planted bugs of savepoints and lineages. None of this is on the shipped path."""

from collections.abc import Mapping

from onceward.epoch import deeds
from onceward.epoch.contract import LastCommit, Owner
from onceward.epoch.deeds import Deed
from onceward.epoch.ledger import Entry
from onceward.epoch.new_lineage import look
from onceward.epoch.storage import Storage
from onceward.epoch.takeover import TakeOver
from onceward.epoch.term import Term, starts
from onceward.proof.simulation.disk import Mount
from onceward.savepoint.restoring import Restoring


class Unjudged(Restoring):
    """An old savepoint is as good as a fresh one: whatever the sinks hold is taken for known."""

    def _judge(self, old: Deed | None, owner: Owner) -> dict[str, tuple[str, int]]:  # noqa: ARG002
        found = look(self.sinks, owner)
        return {name: (last.lineage, last.epoch) for name, last in found.items() if last is not None}


class NotFenced(Restoring):
    """The sinks are looked at and not taken over: who was paused may still add to them."""

    def _fence(self, owner: Owner, found: Mapping[str, LastCommit | None]) -> None:
        pass


class DoubtThrownAway(Restoring):
    """An epoch that is decided and not everywhere is forgotten with its lineage."""

    def _require_none_in_doubt(self, old: Deed, owner: Owner) -> None:
        pass


class BegunEarly(Restoring):
    """The new lineage is in force before its state is there."""

    def _begin(self, term: Term) -> Deed:
        deed = self._deed(term)
        deeds.begin(self.home.storage, term.number, deed)
        room = self.home.of_lineage(deed)
        self._record(room, deed, term, self._lay_out(room))
        return deed


class MarksOfAllLineages(TakeOver):
    """A marker of an older lineage is taken for one of this lineage's."""

    def _was_marked(self, recorded: Entry | None) -> bool:
        return True in {start.marked for start in starts(self.term.storage)} or super()._was_marked(recorded)


class UnsyncedLineage(Mount):
    """What a restore has written may not survive a power cut, what follows from it does."""

    def __init__(self, mount: Mount) -> None:
        super().__init__(mount._disk, mount._enter, mount._step)  # noqa: SLF001 - a bug may look inside

    def settle(self, folder: str) -> None:
        if not folder.startswith("lineages/"):
            super().settle(folder)

    def sync(self, name: str) -> None:
        if not name.startswith("lineages/"):
            super().sync(name)


def leaves_slots_open(storage: Storage, term: int) -> Deed | None:  # noqa: ARG001 - that is the bug
    """A restore that was paused and overtaken begins its lineage all the same."""
    return deeds.in_force(storage)
