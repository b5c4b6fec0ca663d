"""Where and when a figure was taken: without it a figure says nothing."""

import datetime as dt
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return f"{model}, {os.cpu_count()} cores"


def circumstances() -> dict[str, object]:
    """The machine, the date, how busy it was, and which state of the repository."""
    return {
        "machine": machine(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "load": round(os.getloadavg()[0], 1),
        "commit": _commit(),
    }


def _commit() -> str:
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except OSError:  # no git here
        return ""
    return said.stdout.strip()
