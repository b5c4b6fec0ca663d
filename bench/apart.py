"""Benchmarks that bring their own process: run there, and their last line of output is JSON."""

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from bench.machine import ROOT
from bench.rounds import Failed

RUN_S = 3600


def found_by(module: str, arguments: Sequence[str]) -> dict[str, Any]:
    """What `python -m bench.MODULE --json` found."""
    command = [sys.executable, "-m", f"bench.{module}", *arguments, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=RUN_S)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        raise Failed(f"bench.{module} failed: {(done.stderr or done.stdout)[-1500:]}")
    found: dict[str, Any] = json.loads(lines[-1])
    return found
