"""Where and when a figure was taken: without it a figure says nothing."""

import datetime as dt
import os
import platform
from pathlib import Path


def machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    return f"{model}, {os.cpu_count()} cores"


def circumstances() -> dict[str, object]:
    """The machine, the date, and how busy it was."""
    return {
        "machine": machine(),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "load": round(os.getloadavg()[0], 1),
    }
