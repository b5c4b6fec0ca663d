"""`home="memory:"`: a home in memory, for tests. It is gone with its process, and so is what it knew of its commits."""

import atexit
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Final

from onceward.epoch.home import IN_MEMORY, MEMORY, is_in_memory
from onceward.epoch.sealed import seal
from onceward.holding import is_abandoned, this_process

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - a directory of our own is made in it
OWNER: Final = "process.json"

_making = threading.Lock()
_made: dict[int, Path] = {}  # by process: a fork does not own its parent's


def place_of(home: str | Path, pipeline: str) -> str | Path:
    """Where a pipeline's home is: for "memory:" a directory that this process keeps for it until it ends."""
    return _root() / pipeline if str(home) == MEMORY else home


def _root() -> Path:
    with _making:
        mine = _made.get(os.getpid())
        if mine is None:
            parent = _parent()
            _clear_up(parent)
            mine = Path(tempfile.mkdtemp(prefix=f"{IN_MEMORY}{os.getpid()}-", dir=parent))  # mode 700
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
    for folder in parent.glob(f"{IN_MEMORY}*"):
        try:
            is_mine = folder.lstat().st_uid == os.getuid() and is_in_memory(folder.name) and not folder.is_symlink()
        except OSError:  # gone just now
            continue
        if is_mine and is_abandoned(folder / OWNER):
            shutil.rmtree(folder, ignore_errors=True)
