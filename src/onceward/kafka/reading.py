"""The records of partitions as a reader sees them: committed ones only, or all.

A broker gives a reader of committed records everything up to the first open transaction, with a list of the
transactions in it that were aborted; leaving those out is the reader's part.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import google_crc32c
from kafka.record.default_records import DefaultRecordBatch

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.batch import CRC_COUNTS_FROM, HEADER, LENGTH_COUNTS_FROM, MAGIC, BatchHeader
from onceward.kafka.compression import Compression, decompress
from onceward.kafka.fetching import fetch
from onceward.kafka.offsets import READ_COMMITTED, READ_UNCOMMITTED
from onceward.kafka.wire import Wire

FETCH_BYTES: Final = 1 << 20  # of each partition at a time: all of them are held at once
FOLLOW_MS: Final = 500  # how long a quiet round over all partitions takes
CODECS: Final = tuple(Compression)
CODEC_BITS: Final = 0x07


class Record(NamedTuple):
    """One record, and where it lies."""

    place: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class _Fetched(NamedTuple):
    records: list[Record]
    next: int  # where to go on
    bound: int  # up to where the leader gives records now


class Reader:
    """Reads partitions side by side, each from its position on; what is fetched at once comes in the order of time."""

    def __init__(self, wire: Wire, positions: Mapping[TopicPartition, int], *, committed: bool) -> None:
        self._wire = wire
        self._positions = dict(positions)
        self._committed = committed

    def until(self, ends: Mapping[TopicPartition, int]) -> Iterator[Record]:
        """Every record before these ends."""
        while left := [place for place, at in self._positions.items() if at < ends[place]]:
            found = {place: self._before(place, ends[place]) for place in left}
            for place, fetched in found.items():
                # No batch, though the leader is past the end: what was there has been cleaned away.
                self._positions[place] = fetched.next if fetched.next > self._positions[place] else ends[place]
            yield from _in_time([it for it in new.records if it.offset < ends[it.place]] for new in found.values())

    def follow(self) -> Iterator[Record]:
        """What is there, and what comes, without end."""
        wait_ms = FOLLOW_MS // len(self._positions)
        while True:
            found = {place: self._fetch(place, wait_ms) for place in self._positions}
            self._positions = {place: fetched.next for place, fetched in found.items()}
            yield from _in_time(fetched.records for fetched in found.values())

    def _before(self, place: TopicPartition, end: int) -> _Fetched:
        """Something new, or nothing from a leader that is past the end; a new leader may know less for a moment."""

        def ask() -> _Fetched | None:
            found = self._fetch(place, 0)
            return found if found.next > self._positions[place] or found.bound >= end else None

        return self._wire.settle(ask, f"{place} up to offset {end}")

    def _fetch(self, place: TopicPartition, wait_ms: int) -> _Fetched:
        start = self._positions[place]
        isolation = READ_COMMITTED if self._committed else READ_UNCOMMITTED
        part = fetch(self._wire, place, start, isolation=isolation, max_bytes=FETCH_BYTES, wait_ms=wait_ms)
        aborted = Aborted(part.aborted_transactions if self._committed else None)
        records, at = list[Record](), start
        for header, batch in whole(part.records):
            at = header.last_offset + 1
            if not aborted.hides(header):
                records += (it for it in _records(place, header, batch) if it.offset >= start)
        return _Fetched(records, at, part.last_stable_offset if self._committed else part.high_watermark)


class Aborted:
    """Which batches of an answer belong to transactions that were aborted."""

    def __init__(self, transactions: Iterable[Any] | None) -> None:
        self._ahead = deque(sorted((it.first_offset, it.producer_id) for it in transactions or ()))
        self._open: set[int] = set()

    def hides(self, header: BatchHeader) -> bool:
        """In the order of their offsets. The broker's own batches, which end transactions, are no records either."""
        while self._ahead and self._ahead[0][0] <= header.last_offset:
            self._open.add(self._ahead.popleft()[1])
        if header.is_control:
            self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open


def whole(answered: Any) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches of an answer's records but for one that is cut off: it comes with the next."""
    data, at = bytes(answered or b""), 0
    while at + HEADER.size <= len(data):
        header = BatchHeader.of(data[at : at + HEADER.size])
        end = at + LENGTH_COUNTS_FROM + header.length
        if end > len(data):
            return
        yield header, data[at:end]
        at = end


def unpacked(place: TopicPartition, header: BatchHeader, batch: bytes) -> bytes:
    """What follows a batch's header, as it was before it was compressed; compared with its checksum."""
    if header.magic != MAGIC:
        raise BrokerRefused(f"{place} at {header.base_offset}: a record batch of format v{header.magic}, not v{MAGIC}")
    if google_crc32c.value(batch[CRC_COUNTS_FROM:]) != header.crc:
        raise BrokerRefused(f"{place} at {header.base_offset}: the record batch does not fit its checksum")
    return decompress(CODECS[header.attributes & CODEC_BITS], batch[HEADER.size :])


def _records(place: TopicPartition, header: BatchHeader, batch: bytes) -> Iterator[Record]:
    plain = unpacked(place, header, batch)
    bare = header._replace(
        length=HEADER.size - LENGTH_COUNTS_FROM + len(plain), attributes=header.attributes & ~CODEC_BITS
    )
    for it in DefaultRecordBatch(bare.packed() + plain):
        yield Record(place, it.offset, it.timestamp, it.key, it.value, it.headers)


def _in_time(partitions: Iterable[Iterable[Record]]) -> Iterator[Record]:
    """Partitions woven into one; the order in each of them stays."""
    return heapq.merge(*partitions, key=lambda it: (it.timestamp_ms, it.place))
