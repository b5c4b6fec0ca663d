"""Planted bugs of restores and resets. None of this is on the shipped path."""

from math import inf

import msgspec

from onceward.epoch import deeds
from onceward.epoch.contract import Owner
from onceward.epoch.deeds import Deed
from onceward.epoch.expected import Held, recorded
from onceward.epoch.home import Home
from onceward.epoch.ledger import Entry
from onceward.epoch.new_lineage import Ending, Found, NewLineage
from onceward.epoch.storage import Below, Storage
from onceward.epoch.term import Term
from onceward.errors import PipelineFenced
from onceward.savepoint.restoring import Restoring

# ruff: noqa: ARG001 - whatever a bug does not look at


def judges_nothing(self: object, ending: Ending, found: Found, begun: Entry | None) -> None:
    """Whatever the sinks hold is taken for right."""


def fences_nothing(self: NewLineage, owner: Owner, found: Found) -> None:
    """The sinks are looked at and not taken over: who was paused may still add to them."""


def closes_nothing(self: NewLineage, ending: Ending, owner: Owner) -> Entry | None:
    """An epoch that is decided and not everywhere is forgotten with its lineage."""
    return None


def begins_early(self: NewLineage, term: Term, deed: Deed, ending: Ending, found: Found, begun: Entry | None) -> Deed:
    """The new lineage is in force before its state, or the note of where it begins, is there."""
    deeds.begin(self.start.home.storage, term.number, deed)
    self.begins.lay_out(self.start.home.of_lineage(deed), deed, ending, found, begun)
    return deed


_put_in_force = NewLineage._put_in_force  # noqa: SLF001 - a bug may look inside


def clears_what_it_began(
    self: NewLineage, term: Term, deed: Deed, ending: Ending, found: Found, begun: Entry | None
) -> Deed:
    """Whoever is told that its slot is taken believes that nothing of it counts."""
    try:
        return _put_in_force(self, term, deed, ending, found, begun)
    except PipelineFenced:
        self.start.home.storage.clear(deed.folder)
        raise


def expects_as_older_ones(terms: Storage, deed: Deed, last: Entry | None, upto: float = inf) -> dict[str, Held]:
    """What the starts of older lineages wrote down counts for this one, too."""
    if deed.origin is not None:
        deed = msgspec.structs.replace(deed, origin=msgspec.structs.replace(deed.origin, first_term=0))
    return recorded(terms, deed, last, upto)


def lasts_for_now(self: Below, name: str) -> None:
    """What a restore has written may not survive a power cut, what follows from it does."""


_lay_out = Restoring.lay_out


class _Unsynced(Below):
    def __init__(self, whole: Storage) -> None:
        assert isinstance(whole, Below)
        super().__init__(whole._storage, whole._folder)  # noqa: SLF001 - likewise

    def sync(self, name: str) -> None:
        pass


def rewrites_for_now(self: Restoring, room: Home, deed: Deed, ending: Ending, found: Found, begun: Entry | None) -> int:
    """What the engine has written for another number of partitions may not survive a power cut."""
    return _lay_out(self, Home(_Unsynced(room.storage), room.location, room.root), deed, ending, found, begun)


def leaves_slots_open(storage: Storage, term: int) -> Deed | None:
    """A restore that was paused and overtaken begins its lineage all the same."""
    return deeds.in_force(storage)
