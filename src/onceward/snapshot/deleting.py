"""Taking a snapshot away."""

from onceward import crashpoints
from onceward.errors import SnapshotUnusable
from onceward.savepoint.place import HALF_DELETED, Place
from onceward.snapshot.manifest import FILE, PARTS


def delete(place: Place) -> None:
    """Interrupted, it is whole, or named `.deleted` and finished by the next try."""
    whole = place.beside(place.name.removesuffix(HALF_DELETED))
    gone = whole.half_deleted
    if gone.exists():
        _clear(gone)
    elif place.is_half_deleted or not whole.exists():
        raise SnapshotUnusable(f"there is no snapshot {whole.location}")
    if not place.is_half_deleted and whole.exists():
        _require_nothing_else(whole)
        if FILE not in whole.names():
            raise SnapshotUnusable(f"{whole.location} is not deleted: it has no {FILE}, so it is no snapshot")
        if whole.around.move(whole.name, gone.name):  # else somebody else was quicker
            crashpoints.reach("snapshot-deleting")
            _clear(gone)


def _clear(gone: Place) -> None:
    """Its first file first: whatever is left is no snapshot, even if somebody gives it back its name."""
    _require_nothing_else(gone)
    gone.around.remove(f"{gone.name}/{FILE}")
    gone.around.clear(gone.name)


def _require_nothing_else(place: Place) -> None:
    """Nothing else is deleted by mistake; hidden files are somebody's too."""
    others = sorted({name.partition("/")[0] for name in (*place.names(), *place.walk())} - PARTS)
    if others:
        raise SnapshotUnusable(f"{place.location} is not deleted: it holds {', '.join(others)}, which no snapshot has")
