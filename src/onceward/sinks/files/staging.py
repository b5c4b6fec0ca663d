"""The staging place: what is written and not yet published, what was published last, and whose it all is.

    owner.json                                  the one (pipeline, sink) that may write here
    committed/GENERATION-EPOCH-LINEAGE.json     the last published epoch of each lineage
    try-EPOCH-TERM-ATTEMPT-LINEAGE/TASK/…       what tasks write, each in a directory of its own
    ready-EPOCH-TERM-ATTEMPT-LINEAGE/…          pre-committed: the finished files of successful tasks, and a manifest
    trash-…                                     renamed away, on its way to deletion

Nobody makes a `try` directory but `begin`, and tasks never make the directories above their own: once it is renamed
away, whatever still writes there fails.
"""

import errno
import os
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_STAGED: Final = re.compile(r"(try|ready)-(\d+)-(\d+)-(\d+)-(.+)")
_TEMPORARY: Final = re.compile(r"temporary-(\d+)-.+")
TRASH: Final = "trash-"
_NO_DIRECTORY_SYNC: Final = frozenset({errno.EINVAL, errno.ENOTSUP})  # some network file systems say so
_SWEEPS: Final = 5  # a task that dies hard may still add a file while its directory is emptied


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One try of one epoch; its directories carry all of it in their names."""

    lineage: str
    epoch: int
    term: int
    attempt: int
    ready: bool = False

    @property
    def name(self) -> str:
        step = "ready" if self.ready else "try"
        return f"{step}-{self.epoch:012d}-{self.term:06d}-{self.attempt}-{self.lineage}"

    @classmethod
    def parse(cls, name: str) -> Self | None:
        """The try a directory belongs to; None if it is no try's."""
        if (found := _STAGED.fullmatch(name)) is None:
            return None
        step, epoch, term, attempt, lineage = found.groups()
        return cls(lineage=lineage, epoch=int(epoch), term=int(term), attempt=int(attempt), ready=step == "ready")


class Staging:
    """The directory, as one term uses it."""

    def __init__(self, root: Path, term: int) -> None:
        self.root = root
        self.term = term

    def path(self, staged: Try) -> Path:
        """Where a try's directory is, or would be."""
        return self.root / staged.name

    def make(self, staged: Try) -> Path:
        """A new, empty directory for a try."""
        path = self.path(staged)
        if path.exists():
            self._trash(path.name)
        path.mkdir()
        return path

    def tries(self) -> Iterator[Try]:
        for name in sorted(names_in(self.root)):
            if (staged := Try.parse(name)) is not None:
                yield staged

    def sweep(self, unwanted: Callable[[Try], bool]) -> None:
        """Take away these tries, and what earlier sweeps and older terms have left."""
        for staged in self.tries():
            if unwanted(staged):
                self._trash(staged.name)
        for folder in (self.root, self.root / "committed"):
            for name in names_in(folder):
                temporary = _TEMPORARY.fullmatch(name)
                if temporary is not None and int(temporary[1]) < self.term:
                    (folder / name).unlink(missing_ok=True)
                if name.startswith(TRASH):
                    delete(folder / name)

    def have(self, folder: str) -> None:
        """A folder whose name lasts, whoever made it."""
        (self.root / folder).mkdir(exist_ok=True)
        sync_directory(self.root)

    def put(self, name: str, data: bytes) -> None:
        """Write a file whole, and make it last; what was there is replaced."""
        target = self.root / name
        if not target.parent.is_dir():
            self.have(target.parent.name)
        temporary = target.parent / f"temporary-{self.term:06d}-{uuid.uuid4().hex}"
        write_synced(temporary, data)
        temporary.replace(target)
        sync_directory(target.parent)

    def claim(self, name: str, data: bytes) -> bytes:
        """Write a file whole, unless one is there; what is there then."""
        if (self.root / name).exists():
            return (self.root / name).read_bytes()
        temporary = self.root / f"temporary-{self.term:06d}-{uuid.uuid4().hex}"
        write_synced(temporary, data)
        try:
            os.link(temporary, self.root / name)
        except FileExistsError:
            return (self.root / name).read_bytes()
        finally:
            temporary.unlink()
        sync_directory(self.root)
        return data

    def _trash(self, name: str) -> None:
        """One rename, so that late writers find nothing; deletion may take its time."""
        try:
            (self.root / name).rename(self.root / f"{TRASH}{uuid.uuid4().hex}")
        except FileNotFoundError:  # somebody else swept, or published it
            return


def names_in(folder: Path) -> list[str]:
    """What is there; nothing, if the directory is not."""
    try:
        return [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return []


def delete(path: Path) -> None:
    """A directory and everything in it; links are not followed, and others may be deleting it too."""
    for last in range(_SWEEPS):
        try:
            _delete_once(path)
        except OSError as error:
            if error.errno != errno.ENOTEMPTY or last == _SWEEPS - 1:
                raise
        else:
            return


def write_synced(path: Path, data: bytes) -> None:
    """A new file that survives a power cut, once its directory is synced too."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_directory(path: Path) -> None:
    """Make the names in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_DIRECTORY_SYNC:
            raise
    finally:
        os.close(descriptor)


def make_folders(base: str, folders: tuple[str, ...]) -> str:
    """Directories below one that must be there: what was swept away is never made again."""
    for folder in folders:
        base = f"{base}/{folder}"
        with suppress(FileExistsError):
            os.mkdir(base)  # noqa: PTH102 - called once for each file; the base must not be made with it
    return base


def _delete_once(path: Path) -> None:
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _delete_once(Path(entry.path))
                else:
                    Path(entry.path).unlink(missing_ok=True)
        path.rmdir()
    except FileNotFoundError:
        return
