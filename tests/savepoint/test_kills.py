"""Kill -9 while a savepoint is made or deleted: it is absent or whole, and nothing is left for ever."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceward import crashpoints
from onceward.savepoint.keeping import find
from onceward.savepoint.verifying import verify
from savepoint.homes import saved_home

TESTS = Path(__file__).parents[1]


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


@pytest.mark.parametrize("point", [it for it in crashpoints.OF_SAVEPOINTS if it != "savepoint-deleting"])
def test_a_creation_killed_at_every_named_point_leaves_no_savepoint(tmp_path: Path, point: str) -> None:
    """E6: and the next one clears what is left."""
    made = saved_home(tmp_path / "home")
    command = ("-m", "onceward", "savepoint", "create", str(made.path), "--name", "it")
    assert run(*command, ONCEWARD_CRASH_AT=point).returncode == -signal.SIGKILL
    assert find(made.home) == []
    assert len([it for it in (made.path / "pins").iterdir() if it.is_dir()]) == 1
    again = run(*command)
    assert again.returncode == 0, again.stderr
    assert "clearing what process" in again.stderr
    (found,) = find(made.home)
    assert verify(found.place).epoch == 9
    assert list((made.path / "pins").iterdir()) == []
    assert [it.name for it in (made.path / "savepoints").iterdir()] == ["it"]


def test_a_creation_killed_on_the_way_to_a_path_elsewhere_is_cleared_too(tmp_path: Path) -> None:
    """E6."""
    made, target = saved_home(tmp_path / "home"), tmp_path / "elsewhere" / "it"
    command = ("-m", "onceward", "savepoint", "create", str(made.path), "--to", str(target))
    assert run(*command, ONCEWARD_CRASH_AT="savepoint-sealed").returncode == -signal.SIGKILL
    assert len(list(target.parent.iterdir())) == 1
    assert not target.exists()
    made.save(name="another")
    assert list(target.parent.iterdir()) == []


def test_a_deletion_killed_at_its_named_point_is_told_and_finished(tmp_path: Path) -> None:
    """E6."""
    made = saved_home(tmp_path / "home")
    place = made.save(name="it")
    command = ("-m", "onceward", "savepoint", "delete", place.location, "--yes")
    assert run(*command, ONCEWARD_CRASH_AT="savepoint-deleting").returncode == -signal.SIGKILL
    told = run("-m", "onceward", "savepoint", "verify", place.location)
    assert told.returncode == 1
    assert "interrupted" in told.stderr
    listed = run("-m", "onceward", "savepoint", "list", str(made.path))
    assert "it.deleted" in listed.stdout
    assert run(*command).returncode == 0
    assert find(made.home) == []


@pytest.mark.slow
@pytest.mark.parametrize(("what", "step", "least"), [("create", 2, 20), ("delete", 1, 8)])
def test_killed_at_any_step_it_is_absent_or_whole(tmp_path: Path, what: str, step: int, least: int) -> None:
    """E6: every file that is opened, linked, renamed or removed is such a step."""
    ended = run(str(Path(__file__).with_name("killed.py")), what, str(tmp_path), str(step))
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) >= least
