"""`onceward bench`: from a checkout, by id; a real run of P2, judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onceward.cli import bench
from onceward.cli.main import app


def test_outside_of_a_checkout_it_says_so_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "ROOT", tmp_path)
    done = CliRunner().invoke(app, ["bench", "P2"])
    assert done.exit_code == 1
    assert len(done.stderr.splitlines()) == 1
    assert "checkout" in done.stderr


def test_an_unknown_id_is_wrong_usage() -> None:
    done = CliRunner().invoke(app, ["bench", "P77"])
    assert done.exit_code == 2
    assert "no benchmark is called P77" in done.stderr


def test_it_lists_what_there_is() -> None:
    done = CliRunner().invoke(app, ["bench", "--list"])
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0].startswith("P0 ")


@pytest.mark.slow
def test_a_copy_of_twenty_thousand_records_is_measured_and_judged(tmp_path: Path) -> None:
    """A8: the figures that are told come from runs whose output was compared with the input."""
    command = [sys.executable, "-m", "onceward", "bench", "P2", "--records", "20000", "--rounds", "1", "--short"]
    command += ["--repeats", "0", "--systems", "onceward", "--results", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["P2"]
    (sample,) = found["samples"]
    assert sample["wrong"] == []
    assert sample["metrics"]["records/s"] > 0
    assert {"jvm CPU s/M", "python CPU s/M", "broker CPU s/M", "commit ms"} <= sample["metrics"].keys()
    assert (tmp_path / "P2.svg").exists()
    assert "records/s" in (tmp_path / "P2.md").read_text()
