"""Where a home's own files live: small files, written whole or not at all, and synced before they count."""

import os
import uuid
from pathlib import Path
from typing import Final, Protocol

PRIVATE: Final = 0o700  # whoever can write to a home can forge what it says is committed, and where its sinks are


class Storage(Protocol):
    """What the ledger and the lease need of a file system. Names are relative, with `/`; what fails is an OSError."""

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None if there is none."""

    def names(self, folder: str) -> list[str]:
        """The file names in a folder, sorted; empty if there is none."""

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Put the file there, whole, instead of what was there."""

    def claim(self, name: str, data: bytes) -> bool:
        """Put the file there, whole, unless one is there already: False then."""

    def remove(self, name: str) -> None:
        """Take the file away; none there is fine."""

    def sync(self, name: str) -> None:
        """Make a file that somebody else wrote survive a power cut."""

    def move(self, folder: str, to: str) -> bool:
        """Give a folder another path, at once and with all it holds, for ever. False: it is not there."""


class LocalStorage:
    """A directory of a POSIX file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lasting: set[Path] = set()  # folders whose own names have been synced by this process

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None if there is none."""
        try:
            return (self.root / name).read_bytes()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """The file names in a folder, sorted, without our temporary ones."""
        try:
            return sorted(file.name for file in (self.root / folder).iterdir() if not file.name.startswith("."))
        except FileNotFoundError:
            return []

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Write beside it, sync, rename over it, sync the folder."""
        target = self.root / name
        temporary = self._write_beside(target, data, sync=sync)
        temporary.replace(target)
        if sync:
            _sync(target.parent)

    def claim(self, name: str, data: bytes) -> bool:
        """Write beside it, sync, link it in: the link fails if the name is taken."""
        target = self.root / name
        temporary = self._write_beside(target, data, sync=True)
        try:
            os.link(temporary, target)
        except FileExistsError:
            return False
        finally:
            temporary.unlink()
        _sync(target.parent)
        return True

    def remove(self, name: str) -> None:
        """Take the file away; none there is fine."""
        (self.root / name).unlink(missing_ok=True)

    def sync(self, name: str) -> None:
        """The file, then the folder that names it."""
        _sync(self.root / name)
        _sync((self.root / name).parent)

    def move(self, folder: str, to: str) -> bool:
        """One rename, then both parents are synced."""
        source, target = self.root / folder, self.root / to
        self._make(target.parent, sync=True)
        try:
            source.rename(target)
        except FileNotFoundError:
            return False
        for parent in {source.parent, target.parent}:
            _sync(parent)
        return True

    def _write_beside(self, target: Path, data: bytes, *, sync: bool) -> Path:
        self._make(target.parent, sync=sync)
        temporary = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        return temporary

    def _make(self, folder: Path, *, sync: bool) -> None:
        """Have the folder. A file lasts only as long as the names of the folders above it do.

        Whoever made a folder may have died before it was synced, so the first file that has to last sees to it.
        """
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        self.root.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        folder.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
        if sync and folder not in self._lasting:
            missing += [each for each in (folder, *folder.parents) if self.root in each.parents]
            self._lasting.add(folder)
        for parent in {each.parent for each in missing}:
            _sync(parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
