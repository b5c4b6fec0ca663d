"""`home="memory:"`: a home in memory, for tests. It is gone with its process, and so is what it knew of its commits."""

import atexit
import os
import re
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

from onceward.epoch.home import MEMORY
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.term import FORMAT, Holder
from onceward.errors import OncewardError
from onceward.pipeline.lease import is_dead, this_process

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
PREFIX: Final = "onceward-memory-"
OWNER: Final = "process.json"
_NAMED: Final = re.compile(rf"{PREFIX}\d+-\w+")

_making = threading.Lock()
_made: dict[int, Path] = {}  # by process: a fork does not own its parent's


def place_of(home: str | Path, pipeline: str) -> str | Path:
    """Where a pipeline's home is: for "memory:" a directory that this process keeps for it until it ends."""
    return _root() / pipeline if str(home) == MEMORY else home


def is_in_memory(location: str | Path) -> bool:
    """Whether a home's location is one of these."""
    return any(_NAMED.fullmatch(part) for part in Path(str(location)).parts)


def _root() -> Path:
    with _making:
        mine = _made.get(os.getpid())
        if mine is None:
            parent = _parent()
            _clear_up(parent)
            mine = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=parent))  # mode 700
            (mine / OWNER).write_bytes(seal(this_process(MEMORY, 0)))
            _made[os.getpid()] = mine
            atexit.register(_remove, mine, os.getpid())
        return mine


def _parent() -> Path:
    usable = SHARED_MEMORY.is_dir() and os.access(SHARED_MEMORY, os.W_OK | os.X_OK)
    return SHARED_MEMORY if usable else Path(tempfile.gettempdir())


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _clear_up(parent: Path) -> None:
    """What processes that were killed have left: only our own user's, and only of those that are certainly gone."""
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            found = folder.lstat()
            if found.st_uid != os.getuid() or not _NAMED.fullmatch(folder.name) or folder.is_symlink():
                continue
            holder = unseal((folder / OWNER).read_bytes(), Holder, str(folder / OWNER), FORMAT)
        except (OSError, OncewardError):
            continue  # being made, or not of ours
        if is_dead(holder):
            shutil.rmtree(folder, ignore_errors=True)
