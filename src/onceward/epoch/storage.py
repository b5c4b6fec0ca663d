"""Where a home's own files live: small files, written whole or not at all, and synced before they count.

A savepoint has large ones as well: they are written into a folder that nobody reads before it is complete.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from onceward.epoch import regular_file

CHUNK: Final = 1 << 22  # bytes; large enough that reading, hashing and writing cost more than asking for them
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

    def walk(self, folder: str) -> list[str]:
        """Every file below a folder at any depth, hidden ones too: sorted, relative to it; empty if there is none."""

    def link(self, name: str, to: str) -> bool:
        """Keep a file that nobody changes any more under a second name, whatever becomes of the first.

        A copy where two names cannot share a file. False: it is not there.
        """

    def chunks(self, name: str) -> Iterator[bytes]:
        """A large file, bit by bit; FileNotFoundError if there is none."""

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """A large file, whole and synced once this returns; its name lasts from `settle` on."""

    def make(self, folder: str) -> None:
        """A new folder, its owner's alone; FileExistsError if there is one. Its name lasts from `settle` on."""

    def settle(self, folder: str) -> None:
        """Make the names of all that was written below a folder survive a power cut."""

    def clear(self, folder: str) -> None:
        """Take a folder away with all it holds; none there is fine."""

    def path(self, name: str) -> Path | None:
        """The file as the operating system knows it, which copies better than anybody else; None: it does not."""


def claimed(put: Callable[[], None], is_ours: Callable[[], bool]) -> bool:
    """Whether `put` got the name, which it must refuse with FileExistsError if somebody has it.

    That may be we ourselves: NFS, whose answer was lost, asks again, and finds the name taken.
    """
    try:
        put()
    except FileExistsError:
        return is_ours()
    return True


class Below:
    """A folder of a storage, as a storage of its own."""

    def __init__(self, storage: Storage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def read(self, name: str) -> bytes | None:
        return self._storage.read(f"{self._folder}/{name}")

    def names(self, folder: str) -> list[str]:
        return self._storage.names(f"{self._folder}/{folder}" if folder else self._folder)

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        self._storage.replace(f"{self._folder}/{name}", data, sync=sync)

    def claim(self, name: str, data: bytes) -> bool:
        return self._storage.claim(f"{self._folder}/{name}", data)

    def remove(self, name: str) -> None:
        self._storage.remove(f"{self._folder}/{name}")

    def sync(self, name: str) -> None:
        self._storage.sync(f"{self._folder}/{name}")

    def move(self, folder: str, to: str) -> bool:
        return self._storage.move(f"{self._folder}/{folder}", f"{self._folder}/{to}")

    def walk(self, folder: str) -> list[str]:
        return self._storage.walk(f"{self._folder}/{folder}" if folder else self._folder)

    def link(self, name: str, to: str) -> bool:
        return self._storage.link(f"{self._folder}/{name}", f"{self._folder}/{to}")

    def chunks(self, name: str) -> Iterator[bytes]:
        return self._storage.chunks(f"{self._folder}/{name}")

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        self._storage.write(f"{self._folder}/{name}", chunks)

    def make(self, folder: str) -> None:
        self._storage.make(f"{self._folder}/{folder}")

    def settle(self, folder: str) -> None:
        self._storage.settle(f"{self._folder}/{folder}" if folder else self._folder)

    def clear(self, folder: str) -> None:
        self._storage.clear(f"{self._folder}/{folder}")

    def path(self, name: str) -> Path | None:
        return self._storage.path(f"{self._folder}/{name}")


class LocalStorage:
    """A directory of a POSIX file system."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lasting: set[Path] = set()  # folders whose own names have been synced by this process

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None if there is none."""
        try:
            return regular_file.whole(self.root / name)
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
            won = claimed(lambda: os.link(temporary, target), lambda: temporary.samefile(target))
        finally:
            temporary.unlink()
        if won:
            _sync(target.parent)
        return won

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

    def walk(self, folder: str) -> list[str]:
        """A link to a folder counts as a file: what it leads to is not below."""
        root = self.root / folder
        found: list[str] = []
        for place, folders, files in os.walk(root):
            links = [name for name in folders if os.path.islink(f"{place}/{name}")]  # noqa: PTH114 - a hot loop
            found += [os.path.relpath(f"{place}/{name}", root) for name in (*files, *links)]
        return sorted(found)

    def link(self, name: str, to: str) -> bool:
        """A hard link: it costs nothing, and holds what others unlink or replace."""
        target = self.root / to
        self._make(target.parent, sync=False)
        try:
            os.link(self.root / name, target)
        except FileNotFoundError:
            return False
        return True

    def chunks(self, name: str) -> Iterator[bytes]:
        """A large file, bit by bit."""
        with regular_file.opened(self.root / name) as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Into its place, and synced: its folder is not read before it is complete."""
        target = self.root / name
        self._make(target.parent, sync=False)
        with target.open("xb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())

    def make(self, folder: str) -> None:
        """The folders around it last at once."""
        path = self.root / folder
        self._make(path.parent, sync=True)
        path.mkdir(mode=PRIVATE)

    def settle(self, folder: str) -> None:
        """Each folder's names, the innermost first, then its own."""
        root = self.root / folder
        for place, _, _ in os.walk(root, topdown=False):
            _sync(Path(place))
        _sync(root.parent)

    def clear(self, folder: str) -> None:
        """Somebody else may be clearing it too. Of a link the link goes, and nothing that it leads to."""
        while (root := self.root / folder).exists():
            try:
                if root.is_symlink():
                    root.unlink()
                    continue
                shutil.rmtree(root)
            except FileNotFoundError:
                continue

    def path(self, name: str) -> Path | None:
        """On this machine's disk."""
        return self.root / name

    def _write_beside(self, target: Path, data: bytes, *, sync: bool) -> Path:
        self._make(target.parent, sync=sync)
        temporary = target.parent / f".{target.name}.{uuid.uuid4().hex}"
        try:
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                if sync:
                    os.fsync(file.fileno())
        except OSError:  # a full disk is tried again and again: no try leaves anything behind
            temporary.unlink(missing_ok=True)
            raise
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
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe in its place is not waited at
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
