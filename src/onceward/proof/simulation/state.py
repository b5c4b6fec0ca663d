"""The state as the engine keeps it: a snapshot for each version and partition, and Spark's way to share it out anew."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from onceward.epoch.state_files import PARTITIONS
from onceward.proof.simulation.disk import Disk
from onceward.proof.simulation.world import World
from onceward.savepoint.manifest import Savepoint

FOLDER: Final = "state/0"  # of the one operator


def plan(partitions: int, texts: Sequence[str]) -> bytes:
    """An entry of the offset log, which says how many partitions the state has."""
    return "\n".join(["v1", json.dumps({"conf": {PARTITIONS: str(partitions)}}), *texts]).encode()


def describe(disk: Disk, folder: str, partitions: int, *, lasts: bool = True) -> None:
    """What the operator says of itself."""
    store = {"storeName": "default", "numPartitions": partitions}
    told = {"operatorInfo": {"operatorName": "count"}, "stateStoreInfo": [store]}
    name = f"{folder}/{FOLDER}/_metadata/metadata"
    disk.put(name, b"v1\n" + msgspec.json.encode(told), fragile=not lasts)
    if lasts:
        disk.keep(name)


def files(folder: str, version: int, counts: Mapping[int, int], partitions: int) -> dict[str, bytes]:
    """Of a version, by their names: each key is in one partition."""
    parts = [{key: count for key, count in counts.items() if key % partitions == part} for part in range(partitions)]
    return {_file(folder, part, version): msgspec.json.encode(counts) for part, counts in enumerate(parts)}


def read(files: Mapping[str, bytes], folder: str, version: int, partitions: int | None = None) -> dict[int, int] | None:
    """All partitions of a version, by default those that there are; None if one is missing."""
    names = [_file(folder, part, version) for part in range(partitions or _count(files, folder, version))]
    if not names or not all(name in files for name in names):
        return None
    parts = [msgspec.json.decode(files[name], type=dict[int, int]) for name in names]
    return {key: count for part in parts for key, count in part.items()}


def share_out(world: World, folder: str, saved: Savepoint, partitions: int) -> int:
    """Another number of partitions, as Spark gives it to a copy that nobody drives: an epoch without input.

    Which is that epoch. Nothing of it is synced.
    """
    epoch, disk = saved.epoch + 1, world.disk
    counts = read(disk.files, folder, epoch) or {}
    written = {f"{folder}/offsets/{epoch}": plan(partitions, saved.entry.positions)}
    written |= files(folder, epoch + 1, counts, partitions)
    for name, data in written.items():
        world.step("log", name)
        disk.put(name, data, fragile=True)
    for part in range(partitions, _count(disk.files, folder, epoch)):
        disk.drop(_file(folder, part, epoch))
    describe(disk, folder, partitions, lasts=False)
    world.step("log", f"{folder}/commits/{epoch}")
    disk.put(f"{folder}/commits/{epoch}", b"v1\n{}", fragile=True)
    return epoch


def _file(folder: str, partition: int, version: int) -> str:
    return f"{folder}/{FOLDER}/{partition}/{version}.snapshot"


def _count(files: Mapping[str, bytes], folder: str, version: int) -> int:
    part = 0
    while _file(folder, part, version) in files:
        part += 1
    return part
