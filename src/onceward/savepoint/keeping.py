"""The savepoints that a home has, and taking one away."""

from dataclasses import dataclass

from onceward import crashpoints
from onceward.epoch.home import Home
from onceward.errors import SavepointDamaged, SavepointUnusable
from onceward.savepoint.manifest import FILE, PARTS, Savepoint, load
from onceward.savepoint.place import HALF_DELETED, SAVEPOINTS, Place


@dataclass(frozen=True, slots=True)
class Found:
    """A savepoint among a home's own; `problem`: why it cannot be used, as far as its first file tells."""

    place: Place
    savepoint: Savepoint | None
    problem: str = ""


def find(home: Home) -> list[Found]:
    """Oldest epoch first; what cannot be read comes last."""
    found = [_look(Place.within(home, name)) for name in home.storage.names(SAVEPOINTS)]
    return sorted(found, key=_order)


def delete(place: Place) -> bool:
    """Take a savepoint away. Interrupted, it is whole, or named `.deleted` and finished by the next try.

    False: it was gone already, but for the rest of an interrupted deletion, which is gone now too.
    """
    whole = place.beside(place.name.removesuffix(HALF_DELETED)) if place.is_half_deleted else place
    gone = whole.half_deleted
    unfinished = gone.exists()
    if unfinished:
        _clear(gone)
    if place.is_half_deleted or not place.exists():
        if not unfinished:
            raise SavepointUnusable(f"there is no savepoint {place.location}")
        return False
    _require_savepoint(place)
    if not place.around.move(place.name, gone.name):
        return False  # somebody else was quicker
    crashpoints.reach("savepoint-deleting")
    _clear(gone)
    return True


def _clear(gone: Place) -> None:
    """Its first file first: whatever is left is no savepoint, even if somebody gives it back its name."""
    gone.around.remove(f"{gone.name}/{FILE}")
    gone.around.clear(gone.name)


def _require_savepoint(place: Place) -> None:
    """Nothing else is deleted by mistake: not a home, nor what somebody put beside."""
    names = place.names()
    others = sorted(set(names) - PARTS)
    if not names:
        raise SavepointUnusable(f"{place.location} is no savepoint: it is empty")
    if others:
        raise SavepointUnusable(
            f"{place.location} is not deleted: it holds {', '.join(others)}, which no savepoint has"
        )


def _look(place: Place) -> Found:
    try:
        return Found(place, load(place))
    except (SavepointDamaged, SavepointUnusable) as error:
        return Found(place, None, str(error))


def _order(found: Found) -> tuple[bool, str, str]:
    return (found.savepoint is None, found.savepoint.created_at if found.savepoint else "", found.place.name)
