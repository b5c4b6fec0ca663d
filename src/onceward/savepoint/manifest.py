"""A savepoint's first file: which epoch of which pipeline it holds, and a checksum for every other file."""

import re
from pathlib import PurePosixPath
from typing import Final

import msgspec

from onceward.epoch.ledger import Entry
from onceward.epoch.query_shape import QueryShape
from onceward.errors import SavepointDamaged, SavepointUnusable
from onceward.savepoint.kind import Kind
from onceward.savepoint.place import Place

FORMAT: Final = 1
FILE: Final = "savepoint.json"
CHECKPOINT: Final = "checkpoint"
KIND: Final = Kind(word="savepoint", file=FILE, inside=CHECKPOINT, damaged=SavepointDamaged, unusable=SavepointUnusable)
SHA256: Final = re.compile(r"[0-9a-f]{64}")


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a file must be."""

    size: int
    sha256: str


class Operator(msgspec.Struct, frozen=True, kw_only=True):
    """A stateful operator, as the engine numbers and names it."""

    id: int
    name: str
    partitions: int
    stores: list[str]
    bytes: int
    rows: int | None = None  # where the engine has just counted them


class Savepoint(msgspec.Struct, frozen=True, kw_only=True):
    """`savepoint.json`."""

    format: int = FORMAT
    id: str
    pipeline: str
    lineage: str
    guarantee: str
    epoch: int  # what is read and held is that of the moment after it
    term: int
    created_at: str
    entry: Entry  # the ledger's: positions, plan, and what each sink has of it
    held: dict[str, tuple[str, int]] = {}  # by sink, also of those that are out: what it holds at this moment
    shape: QueryShape
    partitions: int | None = None  # of the query's shuffles
    backend: str = ""  # "rocksdb", "hashmap", or the engine's class
    operators: list[Operator] = []
    files: dict[str, FileFacts] = {}

    @property
    def bytes(self) -> int:
        """The size of all files that it names."""
        return sum(file.size for file in self.files.values())


def load(place: Place) -> Savepoint:
    """The manifest, checked; the files that it names are not looked at."""
    found = KIND.load(place, Savepoint, FORMAT)
    strange = [name for name, facts in found.files.items() if not _is_ours(name, facts)]
    if strange:
        raise SavepointDamaged(f"{place.name_of(FILE)} names files that no savepoint has: {', '.join(sorted(strange))}")
    return found


def _is_ours(name: str, facts: FileFacts) -> bool:
    """A manifest may come from anywhere: no name may lead out of the directory."""
    path = PurePosixPath(name)
    inside = str(path) == name and len(path.parts) > 1 and path.parts[0] == CHECKPOINT
    return inside and ".." not in path.parts and facts.size >= 0 and bool(SHA256.fullmatch(facts.sha256))
