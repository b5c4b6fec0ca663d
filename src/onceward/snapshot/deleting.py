"""Taking a snapshot away."""

from onceward import crashpoints
from onceward.errors import SnapshotUnusable
from onceward.savepoint.place import HALF_DELETED, Place
from onceward.snapshot.manifest import FILE, PARTS


def delete(place: Place) -> None:
    """Interrupted, it is whole, or named `.deleted` and finished by the next try."""
    if not place.is_half_deleted and place.exists():
        others = sorted(set(place.names()) - PARTS)
        if others or not place.names():
            what = f"it holds {', '.join(others)}, which no snapshot has" if others else "it is empty"
            raise SnapshotUnusable(f"{place.location} is not deleted: {what}")
        place.half_deleted.around.clear(place.half_deleted.name)
        place.around.move(place.name, place.half_deleted.name)
        crashpoints.reach("snapshot-deleting")
    gone = place if place.is_half_deleted else place.half_deleted
    if not gone.exists():
        raise SnapshotUnusable(f"there is no snapshot {place.location.removesuffix(HALF_DELETED)}")
    gone.around.remove(f"{gone.name}/{FILE}")
    gone.around.clear(gone.name)
