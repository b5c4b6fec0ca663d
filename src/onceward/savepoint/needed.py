"""Which files of Spark's checkpoint the state after one epoch needs, and no others. Pure.

Epoch N leaves version N + 1 in every store of every operator: `state/OPERATOR/PARTITION[/STORE]/`. A store is a
snapshot (`V.zip` with the files that it names, or `V.snapshot`) and the changes after it (`.changelog`, `.delta`).
"""

import io
import json
import re
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from onceward.epoch.checkpoint import NOTES
from onceward.epoch.state_files import Operator

_STORE: Final = re.compile(r"state/(?P<operator>\d+)/(?P<partition>\d+)(?:/(?P<store>(?!SSTs/|logs/|_)[^/]+))?/[^/]+")
_SHARED: Final = re.compile(r".*/(?:SSTs|logs)/[^/]+")  # of RocksDB: a snapshot names those that it needs
_VERSIONED: Final = re.compile(
    r"(?P<version>\d+)(?:_(?P<id>[0-9a-fA-F-]+))?\.(?P<kind>zip|snapshot|changelog|delta)(?:\.crc)?"
)
_OF_EPOCH: Final = re.compile(r"state/\d+/(?:_metadata/v2/(?P<metadata>\d+)|_stateSchema/[^/]+/(?P<schema>\d+)_[^/]+)")
_METADATA: Final = re.compile(r"state/(?P<operator>\d+)/_metadata/(?:metadata|v2/(?P<epoch>\d+))")
DEFAULT: Final = "default"  # the store of an operator that has one, in the partition's own folder
SNAPSHOTS: Final = ("zip", "snapshot")


class NotThere(Exception):
    """Something that the epoch needs is not, or no longer, in the checkpoint."""


@dataclass(frozen=True, slots=True)
class StoreId:
    """One operator's store in one partition."""

    operator: int
    partition: int
    store: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a RocksDB snapshot says of itself."""

    shared: list[str]  # relative to its store
    rows: int | None


@dataclass(slots=True)
class Store:
    """The versioned files of a store: names below the checkpoint, by kind and version."""

    folder: str
    files: list[tuple[str, int, str]] = field(default_factory=list)  # kind, version, name
    distinct: bool = False  # versions carry ids: which belong together is known to Spark alone

    def snapshots(self, version: int) -> list[tuple[int, str]]:
        """Those from which a version can be rebuilt, the best first."""
        found = [(at, name) for kind, at, name in self.files if kind in SNAPSHOTS and at <= version]
        return sorted(found, reverse=True)

    def changes(self, after: int, version: int) -> list[str]:
        """What happened after a snapshot, up to a version; each step must be there."""
        found = {at: name for kind, at, name in self.files if kind not in SNAPSHOTS and after < at <= version}
        missing = [at for at in range(after + 1, version + 1) if at not in found]
        if missing:
            raise NotThere(f"{self.folder} has no version {missing[0]} of its state")
        return [found[at] for at in sorted(found)]

    def up_to(self, version: int) -> list[str]:
        """All there is, where versions carry ids."""
        return [name for _, at, name in self.files if at <= version]


@dataclass(slots=True)
class Needed:
    """A checkpoint's files, sorted out for one epoch."""

    epoch: int
    plain: list[str] = field(default_factory=list)  # needed as they are
    stores: dict[StoreId, Store] = field(default_factory=dict)
    metadata: dict[int, str] = field(default_factory=dict)  # by operator, the file that describes it

    @property
    def version(self) -> int:
        """Of the state after the epoch."""
        return self.epoch + 1


def sort_out(names: Iterable[str], epoch: int) -> Needed:
    """Sort a checkpoint's files; temporary and other hidden ones are nobody's."""
    needed = Needed(epoch)
    logs = {f"offsets/{epoch}", f"commits/{epoch}", *([f"offsets/{epoch - 1}"] if epoch else [])}  # Spark starts there
    seen = {"metadata", *logs}
    described: dict[int, int] = {}
    for name in names:
        if any(part.startswith(".") for part in name.split("/")):
            continue
        if name.startswith("state/"):
            _of_state(needed, name, described)
        elif name in seen or name.startswith(("sources/", f"{NOTES}/")):
            needed.plain.append(name)
            seen.discard(name)
    if seen:
        raise NotThere(f"{min(seen)} is not there")
    return needed


def _of_state(needed: Needed, name: str, described: dict[int, int]) -> None:
    if (of_epoch := _OF_EPOCH.fullmatch(name)) and int(of_epoch["metadata"] or of_epoch["schema"]) > needed.epoch:
        return  # of a start after this epoch
    if (metadata := _METADATA.fullmatch(name)) is not None:
        operator, since = int(metadata["operator"]), int(metadata["epoch"] or 0)
        if since >= described.get(operator, 0):
            described[operator], needed.metadata[operator] = since, name
    if _SHARED.fullmatch(name):
        return
    folder, _, file = name.rpartition("/")
    place, versioned = _STORE.fullmatch(name), _VERSIONED.fullmatch(file)
    if place is None or versioned is None:
        needed.plain.append(name)
        return
    where = StoreId(int(place["operator"]), int(place["partition"]), place["store"] or DEFAULT)
    store = needed.stores.setdefault(where, Store(folder))
    if versioned["id"] is not None or file.endswith(".crc"):
        store.distinct = store.distinct or versioned["id"] is not None
        store.files.append(("", int(versioned["version"]), name))
    else:
        store.files.append((versioned["kind"], int(versioned["version"]), name))


def read_snapshot(data: bytes) -> Snapshot | None:
    """RocksDB's `V.zip`: the files that it shares with others; None: it cannot be read."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if archive.testzip() is not None:
                return None
            told = json.loads(archive.read("metadata").partition(b"\n")[2])
        tables = [f"SSTs/{it['dfsSstFileName']}" for it in told.get("sstFiles") or []]
        logs = [f"logs/{it['dfsLogFileName']}" for it in told.get("logFiles") or []]
        rows = told.get("numKeys", -1)
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, TypeError, AttributeError, NotImplementedError):
        return None
    return Snapshot([*tables, *logs], rows if isinstance(rows, int) and rows >= 0 else None)


def read_operator(number: int, data: bytes) -> Operator:
    """Of an epoch that is to be saved: whole, or the epoch cannot be."""
    try:
        return Operator.noted(number, data)
    except (ValueError, KeyError, TypeError) as error:
        raise NotThere(f"the description of an operator cannot be read: {error!r}") from error
