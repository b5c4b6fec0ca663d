"""Records of the input that a person has told the pipeline to pass over, as a file of the lineage.

Such a record is filtered out of the input from then on, in every epoch and every replay. The epoch whose range it is in
says so in the ledger, and may carry it to a topic for dead letters, in the same commit.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from onceward.epoch.outcome import TopicPartition
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import SkipRefused

FORMAT: Final = 1
FILE: Final = "skipped.json"


class RecordPlace(NamedTuple):
    """One record of a topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @property
    def partition_place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A record as Kafka had it when it was skipped, and who said so and why."""

    topic: str
    partition: int
    offset: int
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = []
    timestamp_ms: int = 0
    reason: str = ""
    dead_letters: str | None = None  # the topic that its epoch writes it to
    at: str = ""
    by: str = ""

    @property
    def place(self) -> RecordPlace:
        return RecordPlace(self.topic, self.partition, self.offset)


class Skips(msgspec.Struct, frozen=True, kw_only=True):
    """`skipped.json`."""

    format: int = FORMAT
    records: list[Skipped] = []


def read(storage: Storage) -> tuple[Skipped, ...]:
    """Of the lineage whose storage this is."""
    data = storage.read(FILE)
    return tuple(unseal(data, Skips, FILE, FORMAT).records) if data is not None else ()


def add(storage: Storage, record: Skipped) -> None:
    """In a home that is ours."""
    records = read(storage)
    if any(it.place == record.place for it in records):
        raise SkipRefused(f"{record.place} is skipped already; `onceward skip HOME --list` shows what is")
    storage.replace(FILE, seal(Skips(records=[*records, record])))


def remove(storage: Storage, place: RecordPlace) -> None:
    """The same, undone."""
    records = read(storage)
    kept = [it for it in records if it.place != place]
    if len(kept) == len(records):
        raise SkipRefused(f"{place} is not skipped; `onceward skip HOME --list` shows what is")
    storage.replace(FILE, seal(Skips(records=kept)))


def in_range(
    records: Iterable[Skipped], begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> tuple[Skipped, ...]:
    """Those that an epoch passes over, in their order; where a partition is new to it, it begins with 0."""
    return tuple(
        sorted(
            (
                it
                for it in records
                if begins.get(it.place.partition_place, 0) <= it.offset < ends.get(it.place.partition_place, 0)
            ),
            key=lambda it: it.place,
        )
    )


def require_ahead(place: RecordPlace, committed: int, ends: Mapping[TopicPartition, int]) -> None:
    """A record that an epoch has committed, or that lies before the first one, cannot be taken out of it any more."""
    end = ends.get(place.partition_place, 0)
    if place.offset >= end:
        return
    where = f"is committed up to offset {end} (epoch {committed})" if committed >= 0 else f"began with offset {end}"
    raise SkipRefused(f"{place} is in the past: the pipeline {where}, and what is committed does not change")


def parse(text: str) -> RecordPlace:
    """`clicks/0/17`."""
    rest, _, offset = text.strip().rpartition("/")
    topic, _, partition = rest.rpartition("/")
    if not (topic and all(it.isascii() and it.isdigit() for it in (partition, offset))):
        raise SkipRefused(f"{text.strip()!r} names no record; write TOPIC/PARTITION/OFFSET, as in clicks/0/17")
    return RecordPlace(topic, int(partition), int(offset))
