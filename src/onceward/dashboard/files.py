"""A home's files for those who only look: nothing is written, and what has not changed is not read again."""

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from onceward.epoch import regular_file

KEPT: Final = 512  # small files of a home whose bytes are kept
SMALL: Final = 1 << 16  # bytes
LARGEST: Final = 64 << 20  # bytes; nothing that is shown is near that
# A folder's time moves in ticks of some milliseconds: what changed just now may change again within the same tick.
SETTLED_NS: Final = 2_000_000_000
LONG: Final = frozenset({"ledger", "decisions"})
SHOWN: Final = 16


class Stamp(NamedTuple):
    """By which a changed file is known: every write of ours is a new file with an old name."""

    inode: int
    size: int
    changed_ns: int


class ReadOnlyFiles:
    """A directory as a `Storage` whose writing half is a bug of ours. For one thread at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._root = str(root)  # paths are put together thousands of times a second, and pathlib takes its time
        self._kept: OrderedDict[str, tuple[Stamp, bytes]] = OrderedDict()
        self._listed: dict[str, tuple[int, list[str]]] = {}
        self._newest_only = False

    @contextmanager
    def newest_only(self) -> Iterator[None]:
        """Long folders show their last names only: what is in doubt is among those, and a thousand need not be read."""
        self._newest_only = True
        try:
            yield
        finally:
            self._newest_only = False

    def read(self, name: str) -> bytes | None:
        """The file's bytes, or None if there is none."""
        stamp = self.stamp(name)
        if stamp is None:
            return None
        kept = self._kept.get(name)
        if kept is not None and kept[0] == stamp:
            self._kept.move_to_end(name)
            return kept[1]
        try:
            data = regular_file.whole(self.root / name, LARGEST)
        except FileNotFoundError:
            return None
        if len(data) <= SMALL and not name.startswith(("ledger/", "decisions/", "lineages/")):
            self._kept[name] = stamp, data
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return data

    def names(self, folder: str) -> list[str]:
        """The file names in a folder, sorted, without temporary ones; listed again only if the folder has changed."""
        found = self._names(folder)
        is_cut = self._newest_only and folder.rpartition("/")[2] in LONG
        return found[-SHOWN:] if is_cut else found

    def _names(self, folder: str) -> list[str]:
        try:
            changed = os.stat(f"{self._root}/{folder}").st_mtime_ns  # noqa: PTH116 - as above
            known = self._listed.get(folder)
            if known is not None and known[0] == changed:
                return known[1]
            found = sorted(name for name in os.listdir(self.root / folder) if not name.startswith("."))  # noqa: PTH208 - a hot loop
        except (FileNotFoundError, NotADirectoryError):
            self._listed.pop(folder, None)
            return []
        if time.time_ns() - changed > SETTLED_NS:
            self._listed[folder] = changed, found
        else:
            self._listed.pop(folder, None)
        return found

    def stamp(self, name: str) -> Stamp | None:
        """None: there is nothing of that name. A link is something, wherever it leads: who reads it is told."""
        try:
            found = os.lstat(f"{self._root}/{name}")
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Stamp(found.st_ino, found.st_size, found.st_mtime_ns)

    def walk(self, folder: str) -> list[str]:
        """Every file below a folder."""
        root = self.root / folder
        return sorted(os.path.relpath(f"{place}/{name}", root) for place, _, files in os.walk(root) for name in files)

    def chunks(self, name: str) -> Iterator[bytes]:
        """A file in one piece: large ones are not looked at."""
        data = self.read(name)
        if data is None:
            raise FileNotFoundError(name)
        yield data

    def path(self, name: str) -> Path | None:
        """Where it is."""
        return self.root / name

    def sync(self, name: str) -> None:
        """Who looks makes nothing last."""

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:  # noqa: ARG002
        """Never."""
        _refuse(name)

    def claim(self, name: str, data: bytes) -> bool:  # noqa: ARG002
        """Never."""
        _refuse(name)

    def remove(self, name: str) -> None:
        """Never."""
        _refuse(name)

    def move(self, folder: str, to: str) -> bool:  # noqa: ARG002
        """Never."""
        _refuse(folder)

    def link(self, name: str, to: str) -> bool:  # noqa: ARG002
        """Never."""
        _refuse(name)

    def write(self, name: str, chunks: Iterable[bytes]) -> None:  # noqa: ARG002
        """Never."""
        _refuse(name)

    def make(self, folder: str) -> None:
        """Never."""
        _refuse(folder)

    def settle(self, folder: str) -> None:
        """Never."""
        _refuse(folder)

    def clear(self, folder: str) -> None:
        """Never."""
        _refuse(folder)


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"the dashboard only reads, and was about to write {name}")
