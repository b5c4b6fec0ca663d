"""Records of the input that a person has told the pipeline to pass over, as a note in its checkpoint.

Such a record is filtered out of the input from then on, in every epoch and every replay. The epoch whose range it is in
says so in the ledger, and may carry it to a topic for dead letters, in the same commit.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from onceward.epoch.outcome import TopicPartition
from onceward.epoch.places import SourceRecord, parse_partition
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import SkipRefused

FORMAT: Final = 1
FILE: Final = "skipped.json"


Ends = Sequence[Mapping[TopicPartition, int]]  # of each source, in the engine's order


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """A record as Kafka had it when it was skipped, and who said so and why."""

    source: int = 0  # the number of the source that reads it
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
    def place(self) -> SourceRecord:
        return SourceRecord(self.source, self.topic, self.partition, self.offset)


class Skips(msgspec.Struct, frozen=True, kw_only=True):
    """`skipped.json`."""

    format: int = FORMAT
    records: list[Skipped] = []


def read(data: bytes | None) -> tuple[Skipped, ...]:
    """What the file says; no file: nothing is skipped."""
    return tuple(unseal(data, Skips, FILE, FORMAT).records) if data is not None else ()


def add(notes: Storage, record: Skipped) -> None:
    """In a checkpoint that is ours."""
    records = read(notes.read(FILE))
    if any(it.place == record.place for it in records):
        raise SkipRefused(f"{record.place} is skipped already; `onceward skip HOME --list` shows what is")
    notes.replace(FILE, seal(Skips(records=[*records, record])))


def remove(notes: Storage, place: SourceRecord) -> None:
    """The same, undone."""
    records = read(notes.read(FILE))
    kept = [it for it in records if it.place != place]
    if len(kept) == len(records):
        raise SkipRefused(f"{place} is not skipped; `onceward skip HOME --list` shows what is")
    notes.replace(FILE, seal(Skips(records=kept)))


def of_source(records: Iterable[Skipped], source: int) -> list[Skipped]:
    """Those that one source leaves out: another one may read a topic of the same name from another cluster."""
    return [it for it in records if it.source == source]


def in_range(records: Iterable[Skipped], begins: Ends, ends: Ends) -> tuple[Skipped, ...]:
    """Those that an epoch passes over, in their order; where a partition is new to it, it begins with 0."""
    passed = (it for it in records if _end(begins, it.place) <= it.offset < _end(ends, it.place))
    return tuple(sorted(passed, key=lambda it: it.place))


def require_ahead(place: SourceRecord, committed: int, ends: Ends) -> None:
    """A record that an epoch has committed, or that lies before the first one, cannot be taken out of it any more."""
    end = _end(ends, place)
    if place.offset >= end:
        return
    where = f"is committed up to offset {end} (epoch {committed})" if committed >= 0 else f"began with offset {end}"
    raise SkipRefused(f"{place} is in the past: the pipeline {where}, and what is committed does not change")


def parse(text: str) -> tuple[int | None, str, int, int]:
    """`clicks/0/17`, or `1:clicks/0/17`: the source's number, if one is given, topic, partition and offset."""
    rest, _, offset = text.strip().rpartition("/")
    place = parse_partition(rest)
    if place is None or not (offset.isascii() and offset.isdigit()):
        raise SkipRefused(f"{text.strip()!r} names no record; write TOPIC/PARTITION/OFFSET, as in clicks/0/17")
    return *place, int(offset)


def _end(ends: Ends, place: SourceRecord) -> int:
    """Of a partition that a source does not know yet: 0."""
    return ends[place.source].get(place.read_in.in_kafka, 0) if place.source < len(ends) else 0
