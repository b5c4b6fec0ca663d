"""A snapshot's first file: the epoch of each pipeline, and what was on its way between them."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from onceward.epoch.home import require_name
from onceward.errors import InvalidName, SnapshotDamaged, SnapshotUnusable
from onceward.savepoint.kind import Kind
from onceward.savepoint.manifest import SHA256
from onceward.savepoint.place import Place

FORMAT: Final = 1
FILE: Final = "snapshot.json"
PIPELINES: Final = "pipelines"
KIND: Final = Kind(word="snapshot", file=FILE, inside=PIPELINES, damaged=SnapshotDamaged, unusable=SnapshotUnusable)


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One pipeline of it; its savepoint is in `pipelines/NAME`."""

    pipeline: str
    home: str  # where it was, for people
    lineage: str
    epoch: int
    savepoint: str  # its id
    sha256: str  # of the savepoint's first file, which has the checksums of the others
    writes: dict[str, str] = {}  # topics with their ids


class OnItsWay(msgspec.Struct, frozen=True, kw_only=True):
    """A channel's state: for each partition, from the consumer's position up to the producer's boundary."""

    topic: str
    topic_id: str
    producer: str
    consumer: str
    ranges: list[tuple[int, int, int]]  # partition, from, up to

    @property
    def offsets(self) -> int:
        """How many, which is at least the number of records: transactions leave marks of their own."""
        return sum(end - start for _, start, end in self.ranges)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """`snapshot.json`."""

    format: int = FORMAT
    id: str
    created_at: str
    members: list[Member]
    channels: list[OnItsWay]


def load(path: str | Path) -> tuple[Place, Snapshot]:
    """Checked as far as the file itself goes; a manifest may come from anywhere."""
    place = Place.at(path)
    found = KIND.load(place, Snapshot, FORMAT)
    _require_sound(place, found)
    return place, found


def savepoint_of(place: Place, pipeline: str) -> Place:
    """Where a member's savepoint is."""
    return Place.at(f"{place.location}/{PIPELINES}/{pipeline}")


def checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _require_sound(place: Place, found: Snapshot) -> None:
    names = [member.pipeline for member in found.members]
    try:
        for name in names:
            require_name(name)  # it is a directory's name
    except InvalidName as error:
        raise SnapshotDamaged(f"{place.name_of(FILE)} names a pipeline that there cannot be: {error}") from error
    if not names or len(set(names)) < len(names) or not all(SHA256.fullmatch(it.sha256) for it in found.members):
        raise SnapshotDamaged(f"{place.name_of(FILE)} contradicts itself: it was altered")
    writes = {member.pipeline: member.writes for member in found.members}
    channels = [(channel.topic, channel.producer, channel.consumer) for channel in found.channels]
    if len(set(channels)) < len(channels) or not all(_is_sound(channel, writes) for channel in found.channels):
        raise SnapshotDamaged(f"{place.name_of(FILE)} contradicts itself in what was on its way: it was altered")


def _is_sound(channel: OnItsWay, writes: Mapping[str, Mapping[str, str]]) -> bool:
    partitions = [partition for partition, _, _ in channel.ranges]
    is_joined = channel.consumer in writes and writes.get(channel.producer, {}).get(channel.topic) == channel.topic_id
    is_distinct = len(set(partitions)) == len(partitions) and min(partitions, default=0) >= 0
    return is_joined and is_distinct and all(0 <= start <= end for _, start, end in channel.ranges)
