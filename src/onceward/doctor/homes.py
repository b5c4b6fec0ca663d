"""A pipeline's home: can it be written, is it private, does somebody drive it, is anything in doubt?"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from onceward.doctor.finding import Finding, note, ok, risk
from onceward.epoch import inspection
from onceward.epoch.home import MEMORY, Home, parse_home
from onceward.errors import OncewardError

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def local(place: str) -> Path | None:
    """The home's directory, if it is one of this machine."""
    parsed = parse_home(place) if place != MEMORY else None
    return parsed if isinstance(parsed, Path) else None


def examine(place: str) -> Iterator[Finding]:
    """Nothing is written, and nobody disturbed."""
    about, home = f"home {place}", local(place)
    if place == MEMORY:
        yield note(about, "it is gone with the process", "a directory, for anything but tests")
        return
    if home is None:
        yield note(about, "in HDFS: not looked at", "see that the user of the pipeline may write there")
        return
    if (place_found := writable(about, home)) is not None:
        yield place_found
        return
    if home.stat().st_mode & OTHERS:
        yield note(about, "others may look into it or write it", f"chmod 700 {home}")
    yield from _inside(about, Home.at(home))


def writable(about: str, place: Path) -> Finding | None:
    """None: the directory is there and may be written."""
    there = next(it for it in (place, *place.parents) if it.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return risk(about, f"{there} cannot be written by this user", "give the user of the pipeline the right to")
    return ok(about, f"{place} is not there yet; the first start makes it") if there != place else None


def _inside(about: str, home: Home) -> Iterator[Finding]:
    try:
        deed = home.deed()
        if deed is None:
            yield ok(about, "empty; the first start makes it")
            return
        doubt, last = inspection.in_doubt(home), inspection.epochs(home, 1)
    except (OncewardError, OSError) as error:
        yield risk(about, str(error), "see docs/when-it-stops.md")
        return
    done = f"last epoch {last[-1].epoch}" if last else "no epoch yet"
    yield ok(about, f"pipeline {deed.pipeline}, {done}")
    if doubt is not None:
        says = f"epoch {doubt.entry.epoch} is between its decision and its completion"
        yield note(about, says, "the next start finishes it, or: onceward resolve")
