"""The savepoints that a home has, and taking one away."""

from dataclasses import dataclass
from typing import Final

from onceward.epoch.home import Home
from onceward.errors import SavepointDamaged, SavepointUnusable
from onceward.savepoint.manifest import KIND, Savepoint, load
from onceward.savepoint.place import SAVEPOINTS, Place

delete: Final = KIND.delete


@dataclass(frozen=True, slots=True)
class Found:
    """A savepoint among a home's own; `problem`: why it cannot be used, as far as its first file tells."""

    place: Place
    savepoint: Savepoint | None
    problem: str = ""


def find(home: Home) -> list[Found]:
    """Oldest epoch first; what cannot be read comes last."""
    found = [_look(Place.within(home, name)) for name in home.storage.names(SAVEPOINTS)]
    return sorted(
        found, key=lambda it: (it.savepoint is None, it.savepoint.created_at if it.savepoint else "", it.place.name)
    )


def _look(place: Place) -> Found:
    try:
        return Found(place, load(place))
    except (SavepointDamaged, SavepointUnusable) as error:
        return Found(place, None, str(error))
