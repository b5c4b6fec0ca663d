"""Where Spark finds the schemas of a transformWithState operator.

Its metadata (`state/OPERATOR/_metadata/v2/EPOCH`) names the schemas' files by their whole path. A start that finds
such a file missing takes every schema for a new one, and then fails, unless it begins with epoch 0. A checkpoint that
was renamed by a take-over, or restored elsewhere, must therefore be told where it is now.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from onceward.epoch.storage import Storage
from onceward.errors import HomeMismatch

METADATA: Final = re.compile(r"state/\d+/_metadata/v2/\d+")
_BELOW: Final = re.compile(r".*/(state/\d+/_stateSchema/.+)")
_PATHS: Final = "stateSchemaFilePaths"


def follow(storage: Storage, folder: str, location: str) -> list[str]:
    """After a checkpoint got another path: its metadata says so. The files that had to be changed."""
    changed = list(misnaming(storage, folder, location))
    for name, data in changed:
        around, _, epoch = name.rpartition("/")
        storage.remove(f"{around}/.{epoch}.crc")  # Hadoop's checksum of the old bytes, if it wrote one
        storage.replace(name, data)
    return [name for name, _ in changed]


def misnaming(storage: Storage, folder: str, location: str) -> Iterator[tuple[str, bytes]]:
    """The metadata that says another path, each with what it must say."""
    for operator in storage.names(f"{folder}/state"):
        metadata = f"{folder}/state/{operator}/_metadata/v2"
        for name in (f"{metadata}/{epoch}" for epoch in storage.names(metadata) if epoch.isdigit()):
            data = storage.read(name)
            if data is not None and (moved := relocated(data, location, name)) != data:
                yield name, moved


def relocated(data: bytes, location: str, name: str) -> bytes:
    """An operator's metadata, for a checkpoint that is at `location`."""
    version, _, body = data.partition(b"\n")
    try:
        metadata = json.loads(body)
        stores = metadata["stateStoreInfo"]
        before = [store.get(_PATHS, []) for store in stores]
        after = [[_moved(path, location) for path in paths] for paths in before]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HomeMismatch(
            f"{name} is no metadata of a stateful operator that this version knows, or was cut short: {error!r}. "
            "Restore the checkpoint from a backup."
        ) from error
    if before == after:
        return data
    for store, paths in zip(stores, after, strict=True):
        if _PATHS in store:
            store[_PATHS] = paths
    return version + b"\n" + json.dumps(metadata, separators=(",", ":"), ensure_ascii=False).encode()


def _moved(path: str, location: str) -> str:
    below = _BELOW.fullmatch(path)
    return f"{location}/{below[1]}" if below else path
