"""What the operating system refuses about a home, in a line or two with the fix."""

import errno
import os
from pathlib import Path
from typing import Final

from onceward.errors import HomeUnusable

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
REFUSED: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR})
REPLAYED: Final = "Nothing of the unfinished epoch is visible and nothing is lost"


def home_unusable(error: OSError, home: str | Path | None = None) -> HomeUnusable | None:
    """None: it is about something else. Of a full disk the system names no file."""
    place = error.filename or (f"into the home {home}" if home is not None else "into the home")
    reason = (error.strerror or str(error)).lower()
    if error.errno in FULL:
        return HomeUnusable(f"cannot write {place}: {reason}. {REPLAYED}: make room there, and start again.")
    if error.errno in REFUSED or (home is not None and is_about(error, home)):
        return HomeUnusable(
            f"cannot use {place}: {reason}. A pipeline's home, and a savepoint, is a directory that this user can "
            "write: look for a file in its way, its owner and mode, and whether the disk is mounted read-only."
        )
    return None


def is_about(error: OSError, home: str | Path) -> bool:
    """Whether its file is the home, in it, or above it."""
    if error.filename is None:
        return False
    found = Path(os.fsdecode(error.filename)).absolute()
    place = Path(str(home).removeprefix("file://")).expanduser().absolute()
    return found == place or place in found.parents or found in place.parents
