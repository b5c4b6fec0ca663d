"""Run by a test, in a process of its own: forks, and kills the child at each of its steps on a disk.

Usage: killed.py create|delete FOLDER STEP. Prints how many children were killed.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from onceward.errors import SavepointDamaged, SavepointUnusable
from onceward.savepoint.keeping import delete, find
from onceward.savepoint.place import Place
from onceward.savepoint.verifying import verify
from savepoint.homes import HandMade

STEPS = ("open", "os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir")


def main() -> None:
    what, folder, step = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    made = HandMade(folder / "home", partitions=1).epochs(0, 1, 2).operator(0).state(0, "2.zip", "3.changelog")
    made.note_shape()
    place, count = Place.within(made.home, "it"), 0
    judge = {"create": judge_creation, "delete": judge_deletion}[what]
    for nth in range(1, 10_000, step):
        if what == "delete" and not place.exists():
            made.save(name="it")
        work: Callable[[], object] = (lambda: made.save(name="it")) if what == "create" else (lambda: delete(place))
        if not killed(work, nth):
            break
        count += 1
        judge(made, place)
    else:
        raise AssertionError("it never ends")
    sys.stdout.write(f"{count}\n")


def killed(work: Callable[[], object], nth: int) -> bool:
    """Whether the child was killed at its nth step; False: it ended before."""
    child = os.fork()
    if child == 0:
        left = [nth]

        def audit(event: str, _: object) -> None:
            if event in STEPS:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the parent tells
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"the child failed at step {nth}"
    return os.WIFSIGNALED(status)


def judge_creation(made: HandMade, place: Place) -> None:
    """Absent or whole; and the next one clears what is left."""
    visible = [it.place.name for it in find(made.home)]
    assert visible in ([], ["it"]), visible
    if visible:
        assert verify(place).epoch == 2
        delete(place)
    delete(made.save(name="after"))
    left = [it.name for folder in ("savepoints", "pins") for it in (made.path / folder).iterdir()]
    torn = [it for it in left if it.startswith(".") and ".json." in it]  # a note that was being written
    assert sorted(torn) == sorted(left), left


def judge_deletion(made: HandMade, place: Place) -> None:
    """Whole, or half deleted and named so; a second try finishes it."""
    for found in find(made.home):
        if found.place.name == "it":
            assert verify(found.place).epoch == 2
        else:
            assert found.place.name == "it.deleted"
            for half in (place, found.place):
                assert "interrupted" in told(half)
    if place.exists() or place.half_deleted.exists():
        delete(place)
    assert find(made.home) == []


def told(place: Place) -> str:
    """What is wrong with it."""
    try:
        verify(place)
    except (SavepointDamaged, SavepointUnusable) as error:
        return str(error)
    return ""


if __name__ == "__main__":
    main()
