"""The home's file system, in memory: what is synced survives a power cut, what is not may not."""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from onceward.epoch import storage


class Disk:
    """Files, and what each of them was before its last write that is not synced yet."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._folders: dict[str, list[str]] = {}  # the names in each, sorted
        self.before: dict[str, bytes | None] = {}
        self.fragile: set[str] = set()  # data not synced either: a power cut may tear them

    def put(self, name: str, data: bytes, *, fragile: bool = False) -> None:
        """There for every process; not yet for ever."""
        old = self.files.get(name)
        self.before.setdefault(name, old)
        if old is None:
            self._enter(name)
        self.files[name] = data
        (self.fragile.add if fragile else self.fragile.discard)(name)

    def names(self, folder: str) -> list[str]:
        """What is in a folder, sorted."""
        return [*self._folders.get(folder, ())]

    def drop(self, name: str) -> None:
        """Take it away, for ever."""
        if name in self.files:
            self._forget(name)
        self.before.pop(name, None)

    def keep(self, name: str) -> None:
        self.before.pop(name, None)
        self.fragile.discard(name)

    def move(self, folder: str, to: str) -> bool:
        """All of it at once, for ever; what was not synced in it still is not."""
        inside = [name for name in self.files if name.startswith(f"{folder}/")]
        for old in inside:
            new = to + old[len(folder) :]
            self._enter(new)
            self.files[new] = self.files[old]
            if old in self.before:
                self.before[new] = self.before.pop(old)
            if old in self.fragile:
                self.fragile.remove(old)
                self.fragile.add(new)
            self._forget(old)
        return bool(inside)

    def cut_power(self, random: Random) -> None:
        """Each unsynced write is there, or not, or torn."""
        for name, old in sorted(self.before.items()):
            fate = random.random()
            if fate < 0.5:
                if old is None:
                    self._forget(name)
                else:
                    self.files[name] = old
            elif fate < 0.7 and name in self.fragile:
                self.files[name] = self.files[name][: len(self.files[name]) // 2]
        self.before.clear()
        self.fragile.clear()

    def _enter(self, name: str) -> None:
        """Into its folder, and each new folder into the one above."""
        folder, _, last = name.rpartition("/")
        known = folder in self._folders
        insort(self._folders.setdefault(folder, []), last)
        if folder and not known:
            self._enter(folder)

    def _forget(self, name: str) -> None:
        del self.files[name]
        folder, _, last = name.rpartition("/")
        self._folders[folder].remove(last)
        while folder and not self._folders[folder]:
            del self._folders[folder]
            folder, _, last = folder.rpartition("/")
            self._folders[folder].remove(last)


class Mount:
    """The disk as one driver sees it: `onceward.epoch.storage.Storage`. Each call is a step, a write is two.

    As LocalStorage does it: written beside and synced, renamed (others see it), then the folder is synced.
    """

    def __init__(self, disk: Disk, enter: Callable[[str, str], str], step: Callable[[str, str], None]) -> None:
        """`enter` is a step that may raise OSError, and answers what goes wrong after its effect, if anything."""
        self._disk, self._enter, self._step = disk, enter, step
        self._files = disk.files

    def read(self, name: str) -> bytes | None:
        if not name.startswith("decisions/"):  # a claimed slot never changes: no matter when it is read
            self._step("read", name)
        return self._files.get(name)

    def names(self, folder: str) -> list[str]:
        """The file names in a folder, sorted, without hidden ones."""
        self._step("list", folder)
        return [name for name in self._disk.names(folder) if not name.startswith(".")]

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        """Whole, instead of what was there."""
        broken = self._enter("write", name)
        self._disk.put(name, data, fragile=not sync)
        if broken:
            raise OSError(f"{name}: written, but the disk said no")
        if sync:
            self._step("sync", name)
            self._disk.keep(name)

    def claim(self, name: str, data: bytes) -> bool:
        """Whole, unless there is one."""
        wrong = self._enter("claim", name)
        mine = bytes(bytearray(data))  # as good as an inode of its own

        def put() -> None:
            taken = name in self._files
            if not taken:
                self._disk.put(name, mine)
            if taken or wrong == "disk-echo":
                raise FileExistsError(name)

        if not storage.claimed(put, lambda: self._files[name] is mine):
            return False
        if wrong == "disk-after":
            raise OSError(f"{name}: claimed, but the disk said no")
        self._step("sync", name)
        self._disk.keep(name)
        return True

    def remove(self, name: str) -> None:
        """None there is fine."""
        with self._changing("remove", name):
            self._disk.drop(name)

    def sync(self, name: str) -> None:
        """For a file that somebody else wrote."""
        with self._changing("sync", name):
            if name not in self._files:
                raise FileNotFoundError(name)
            self._disk.keep(name)

    def move(self, folder: str, to: str) -> bool:
        """A folder gets another path, with all it holds."""
        with self._changing("move", folder):
            return self._disk.move(folder, to)

    def walk(self, folder: str) -> list[str]:
        """Every file below a folder, relative to it."""
        self._step("list", folder)
        return sorted(name[len(folder) + 1 :] for name in self._files if name.startswith(f"{folder}/"))

    def link(self, name: str, to: str) -> bool:
        """A second name for the same bytes."""
        with self._changing("link", name):
            if name not in self._files:
                return False
            self._disk.put(to, self._files[name])
            return True

    def chunks(self, name: str) -> Iterator[bytes]:
        """All at once: files are small here."""
        self._step("read", name)
        if name not in self._files:
            raise FileNotFoundError(name)
        yield self._files[name]

    def write(self, name: str, chunks: Iterable[bytes]) -> None:
        """Its bytes are synced, its name is not."""
        with self._changing("write", name):
            self._disk.put(name, b"".join(chunks))

    def make(self, folder: str) -> None:
        """Folders are where files are."""
        with self._changing("make", folder):
            if self._disk.names(folder):
                raise FileExistsError(folder)

    def settle(self, folder: str) -> None:
        """Names that last."""
        with self._changing("sync", folder):
            for name in [it for it in self._files if it.startswith(f"{folder}/")]:
                self._disk.keep(name)

    def clear(self, folder: str) -> None:
        """A folder with all it holds."""
        with self._changing("remove", folder):
            for name in [it for it in self._files if it.startswith(f"{folder}/")]:
                self._disk.drop(name)

    def path(self, name: str) -> Path | None:
        """In memory only."""

    @contextmanager
    def _changing(self, what: str, name: str) -> Iterator[None]:
        """A step that changes something, and may fail before it has or after."""
        broken = self._enter(what, name)
        yield
        if broken:
            raise OSError(f"{name}: done ({what}), but the disk said no")
