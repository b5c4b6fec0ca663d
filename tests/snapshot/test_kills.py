"""Kill -9 while a snapshot is taken or deleted: it is absent or whole, and nothing is left for ever."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceward import crashpoints
from onceward.snapshot.manifest import KIND, load
from onceward.snapshot.verifying import verify
from snapshot.homes import taken, two

TESTS = Path(__file__).parents[1]
WHILE_CREATING = ("snapshot-pinned", "snapshot-copied", "snapshot-sealed")


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{TESTS}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return run("-m", "onceward", "snapshot", *arguments, **environment)


def test_every_named_point_is_killed_at() -> None:
    """But for that of a restore, which needs Spark."""
    assert {*WHILE_CREATING, "snapshot-deleting", "snapshot-filled"} == set(crashpoints.OF_SNAPSHOTS)


@pytest.mark.parametrize("point", [*WHILE_CREATING, "savepoint-sealed#2"])
def test_a_creation_killed_at_every_named_point_leaves_no_snapshot(tmp_path: Path, point: str) -> None:
    """D5: and the next one clears what is left, in all homes."""
    homes, target = two(tmp_path / "homes"), tmp_path / "snapshot"
    creation = ("create", *(str(it.path) for it in homes), "--to", str(target))
    assert command(*creation, ONCEWARD_CRASH_AT=point).returncode == -signal.SIGKILL
    assert not target.exists()
    assert {len([it for it in (home.path / "pins").iterdir() if it.is_dir()]) for home in homes} == {1}
    again = command(*creation)
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("clearing what process") == 2
    verify(*load(target))
    assert [it.name for it in tmp_path.iterdir() if it.name != "homes"] == ["snapshot"]
    assert [it for home in homes for it in (home.path / "pins").iterdir()] == []


def test_a_deletion_killed_at_its_named_point_is_told_and_finished(tmp_path: Path) -> None:
    """D5."""
    place, _ = taken(tmp_path, *two(tmp_path / "homes"))
    deletion = ("delete", place.location, "--yes")
    assert command(*deletion, ONCEWARD_CRASH_AT="snapshot-deleting").returncode == -signal.SIGKILL
    for name in (place.location, f"{place.location}.deleted"):
        told = command("verify", name)
        assert told.returncode == 1
        assert "deletion" in told.stderr
        assert "interrupted" in told.stderr
    assert command(*deletion).returncode == 0
    assert [it.name for it in tmp_path.iterdir()] == ["homes"]
    assert command(*deletion).returncode == 1


@pytest.mark.slow
@pytest.mark.parametrize(("what", "step", "least"), [("create", 3, 20), ("delete", 1, 8)])
def test_killed_at_any_step_it_is_absent_or_whole(tmp_path: Path, what: str, step: int, least: int) -> None:
    """D5: every file that is opened, linked, renamed or removed is such a step."""
    ended = run(str(Path(__file__).with_name("killed_snapshots.py")), what, str(tmp_path), str(step))
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= least


def test_a_deletion_that_was_interrupted_later_is_finished_too(tmp_path: Path) -> None:
    """D5: some files are gone already."""
    place, _ = taken(tmp_path, *two(tmp_path / "homes"))
    half = Path(place.location).rename(f"{place.location}.deleted")
    (half / "snapshot.json").unlink()
    KIND.delete(place)
    assert not half.exists()
