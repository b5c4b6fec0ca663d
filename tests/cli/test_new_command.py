"""`onceward new`: a project that runs as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.errors import ConfigurationError, InvalidName

FILES = [".gitignore", "README.md", "events.txt", "pipeline.py", "test_pipeline.py"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_project_has_its_name_everywhere(here: Path) -> None:
    """I1."""
    ended = CliRunner().invoke(app, ["new", "shop"])
    assert ended.exit_code == 0
    assert "onceward run pipeline.py --once" in ended.stdout
    assert sorted(it.name for it in (here / "shop").iterdir()) == FILES
    text = "".join((here / "shop" / name).read_text() for name in FILES)
    assert "new-project" not in text
    assert 'ow.Pipeline("shop", home="data/shop"' in text


def test_an_empty_folder_will_do_and_any_other_is_left_alone(here: Path) -> None:
    (here / "shop").mkdir()
    assert CliRunner().invoke(app, ["new", "shop"]).exit_code == 0
    before = (here / "shop" / "pipeline.py").stat().st_mtime_ns
    for taken in ("shop", "file"):
        (here / "file").touch()
        assert isinstance(CliRunner().invoke(app, ["new", taken]).exception, ConfigurationError)
    assert (here / "shop" / "pipeline.py").stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["", "a/b", "../up", ".hidden", "two words", "x" * 201])
def test_a_name_that_is_none_is_refused(here: Path, name: str) -> None:
    assert isinstance(CliRunner().invoke(app, ["new", name]).exception, InvalidName)
    assert list(here.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(420)  # half a minute on a quiet machine
def test_the_projects_own_test_kills_it_and_finds_its_output_exact(here: Path) -> None:
    """I1, A1: as its owner runs it; it leaves nothing behind, neither files nor processes."""
    assert CliRunner().invoke(app, ["new", "shop"]).exit_code == 0
    (litter := here / "litter").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=here / "shop",
        env={**os.environ, "TMPDIR": str(litter)},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    assert list(litter.iterdir()) == []
    assert sorted(it.name for it in (here / "shop").iterdir() if it.name != "__pycache__") == FILES
    assert str(litter) not in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
