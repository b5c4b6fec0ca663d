"""Run by a test, in a process of its own: forks, and kills the child at each of its steps on a disk.

Usage: killed_snapshots.py create|delete FOLDER STEP. Prints how many children were killed.
"""

import sys
from pathlib import Path

from onceward.errors import SnapshotDamaged
from onceward.savepoint.place import Place
from onceward.snapshot.manifest import KIND, load
from onceward.snapshot.verifying import verify
from savepoint.killed import killed
from snapshot.homes import Joined, taken, two


def main() -> None:
    what, folder, step = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    homes = two(folder / "homes")
    place, count = Place.at(folder / "snapshot"), 0
    for nth in range(1, 10_000, step):
        if what == "delete" and not place.exists():
            taken(folder, *homes)
        if not killed((lambda: taken(folder, *homes)) if what == "create" else (lambda: KIND.delete(place)), nth):
            break
        count += 1
        judge_creation(folder, place, homes) if what == "create" else judge_deletion(place)
    else:
        raise AssertionError("it never ends")
    sys.stdout.write(f"{count}\n")


def judge_creation(folder: Path, place: Place, homes: tuple[Joined, ...]) -> None:
    """Absent or whole; and the next one clears what is left."""
    if place.exists():
        verify(*load(place.location))
        KIND.delete(place)
    taken(folder, *homes, to=folder / "after")
    KIND.delete(Place.at(folder / "after"))
    left = [it.name for it in folder.iterdir() if it.name != "homes"]
    left += [it.name for home in homes for it in (home.path / "pins").iterdir()]
    torn = [it for it in left if it.startswith(".") and (".json." in it or ".owner." in it)]  # was being written
    assert sorted(torn) == sorted(left), left


def judge_deletion(place: Place) -> None:
    """Whole, or half deleted and named so; a second try finishes it."""
    if place.exists():
        verify(*load(place.location))
    elif place.half_deleted.exists():
        assert all("interrupted" in told(found) for found in (place, place.half_deleted))
    if place.exists() or place.half_deleted.exists():
        KIND.delete(place)
    assert not place.exists()
    assert not place.half_deleted.exists()


def told(place: Place) -> str:
    """What is wrong with it."""
    try:
        load(place.location)
    except SnapshotDamaged as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
