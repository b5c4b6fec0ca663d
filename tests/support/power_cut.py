"""A disk that can lose power: what of a directory would be left, had the power gone at any moment.

POSIX promises little: a file's bytes last once the file is synced, a name once its folder is synced. `kill -9` cannot
show a missing sync, as the kernel keeps everything. So a `Disk` watches the calls of this process. At each fsync it
notes the bytes, or the names, that are there; a look afterwards tells what a strict disk would hold.

It watches `os.fsync` itself and, for renames and links, Python's audit events, which come from the system call's own
wrapper, whether `os.rename`, `Path.replace` or `shutil.move` led to it. What libraries in C++ or Rust write is seen as
well: only what was synced counts, whoever wrote it.
"""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_watching: list["Disk"] = []


@dataclass(frozen=True)
class Put:
    """A file or folder that was about to get a name, and what a strict disk held at that moment."""

    source: Path
    target: Path
    synced: bool  # everything under the source would have come through, if its name had
    survivors: frozenset[str]  # paths below the root


@dataclass
class Disk:
    """One directory, from the moment it is watched; what was there before counts as synced."""

    root: Path
    puts: list[Put] = field(default_factory=list)
    _bytes: dict[int, bytes] = field(default_factory=dict)  # of files, by inode, at their last fsync
    _names: dict[int, dict[str, int]] = field(default_factory=dict)  # of folders, by inode, at their last fsync

    def __post_init__(self) -> None:
        self._note(self.root)
        for path in self.root.rglob("*"):
            self._note(path)

    def survivors(self) -> frozenset[str]:
        """The paths that a power cut now would leave, each with the bytes it has now."""
        return frozenset(self._left(self.root, self.root.stat().st_ino))

    def lost(self) -> list[str]:
        """The files that a power cut now would take."""
        there = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        return sorted(there - self.survivors())

    def put(self, ending: str) -> Put:
        """The one time that a name with this ending was given."""
        found = [put for put in self.puts if str(put.target).endswith(ending)]
        assert len(found) == 1, f"{ending}: {found}"
        return found[0]

    def _note(self, path: Path) -> None:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = _listed(path)
        else:
            self._bytes[found.st_ino] = path.read_bytes()

    def _left(self, path: Path, inode: int) -> Iterator[str]:
        for name, inner in self._names.get(inode, {}).items():
            below = path / name
            if not below.exists() or below.stat().st_ino != inner:
                continue  # an older name, which has gone or means something else by now
            if below.is_dir():
                yield from self._left(below, inner)
            elif self._bytes.get(inner) == below.read_bytes():
                yield str(below.relative_to(self.root))

    def _is_synced(self, path: Path) -> bool:
        if not path.is_dir():
            return self._bytes.get(path.stat().st_ino) == path.read_bytes()
        return self._names.get(path.stat().st_ino) == _listed(path) and all(map(self._is_synced, path.iterdir()))

    def _fsync(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_relative_to(self.root):
            self._note(path)

    def _named(self, source: Path, target: Path) -> None:
        if target.is_relative_to(self.root) and source.exists():
            self.puts.append(Put(source, target, self._is_synced(source), self.survivors()))


@contextmanager
def watched(root: Path) -> Iterator[Disk]:
    """Watch a directory while the block runs."""
    disk, real = Disk(root), os.fsync

    def fsync(file: Any) -> None:
        real(file)
        disk._fsync(file if isinstance(file, int) else file.fileno())

    if _audit not in _installed:
        sys.addaudithook(_audit)
        _installed.append(_audit)
    _watching.append(disk)
    os.fsync = fsync  # type: ignore[assignment]
    try:
        yield disk
    finally:
        os.fsync = real
        _watching.remove(disk)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching and event in ("os.rename", "os.link"):
        source, target = (Path(os.fsdecode(path)).absolute() for path in arguments[:2])
        for disk in _watching:
            disk._named(source, target)


_installed: list[Any] = []  # an audit hook cannot be taken out again


def _listed(folder: Path) -> dict[str, int]:
    return {entry.name: entry.inode() for entry in os.scandir(folder)}
