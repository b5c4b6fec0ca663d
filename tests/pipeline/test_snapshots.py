"""Snapshots of real pipelines that run, are killed, and go on as copies. The long run: `python -m bench.snapshots`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(600)
@pytest.mark.slow
def test_snapshots_taken_while_drivers_are_killed_are_consistent_and_a_copy_is_exact() -> None:
    """D5: five pipelines, three in a chain and two in a cycle; the copy itself is killed once on its way."""
    command = [sys.executable, "-m", "bench.snapshots", "--snapshots", "4", "--restores", "1", "--seed", "7"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 snapshots, all consistent" in done.stdout
    assert "as a copy: exact" in done.stdout
