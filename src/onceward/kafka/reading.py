"""The records of partitions as a reader sees them: committed ones only, or all.

A broker gives a reader of committed records everything up to the first open transaction, with a list of the
transactions in it that were aborted; leaving those out is the reader's part.
"""

import heapq
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kafka.record.default_records import DefaultRecordBatch

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.batch import HEADER, LENGTH_COUNTS_FROM
from onceward.kafka.cursor import Cursor, Leaders, New
from onceward.kafka.entries import CODEC_BITS, Entry, unpacked
from onceward.kafka.offsets import READ_COMMITTED, READ_UNCOMMITTED
from onceward.kafka.wire import RETRY_S, SETTLE_TIMEOUT_S, Wire

FETCH_BYTES: Final = 1 << 20  # of each partition at a time: all of them are held at once
PATIENCE_S: Final = SETTLE_TIMEOUT_S
FOLLOW_MS: Final = 500  # how long a quiet round over all partitions takes
NO_TIME: Final = -1  # Kafka's own: messages of format v0 have none


class Record(NamedTuple):
    """One record, and where it lies."""

    place: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Reader:
    """Reads partitions side by side, each from its position on; what is fetched at once comes in the order of time."""

    def __init__(
        self,
        wire: Wire,
        positions: Mapping[TopicPartition, int],
        *,
        committed: bool,
        compacted: Collection[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """compacted: topics that are known to be."""
        self._leaders = Leaders(wire, clock)
        self._cursors = [
            Cursor(
                self._leaders,
                place,
                at,
                isolation=READ_COMMITTED if committed else READ_UNCOMMITTED,
                is_compacted=place.topic in compacted,
                patience_s=PATIENCE_S,
                max_bytes=FETCH_BYTES,
            )
            for place, at in positions.items()
        ]

    def until(self, ends: Mapping[TopicPartition, int]) -> Iterator[Record]:
        """Every record before these ends; `PartitionSilent` if one does not come."""
        for cursor in self._cursors:
            cursor.end = ends[cursor.place]
        while left := [it for it in self._cursors if not it.is_done]:
            found = [(cursor.come(), cursor.end) for cursor in left]
            yield from _in_time(_records(new, end) for new, end in found)

    def follow(self, is_over: Callable[[], bool] = lambda: False) -> Iterator[Record]:
        """What is there, and what comes, until somebody says so between two rounds."""
        wait_ms, heard = FOLLOW_MS // len(self._cursors), [self._leaders.clock()] * len(self._cursors)
        while not is_over():
            found = [cursor.look(wait_ms) for cursor in self._cursors]
            for number, (cursor, new) in enumerate(zip(self._cursors, found, strict=True)):
                if new or cursor.is_caught_up:
                    heard[number] = self._leaders.clock()
                cursor.require_patience(heard[number])
            yield from _in_time(_records(new, None) for new in found)
            if not any(found):
                self._leaders.wire.poll(RETRY_S)  # whoever has no leader, or is throttled, does not wait for itself


def _records(found: Iterable[New], end: int | None) -> list[Record]:
    return [
        it
        for new in found
        if not new.is_hidden
        for it in _of(new.entry)
        if it.offset >= new.since and (end is None or it.offset < end)
    ]


def _of(entry: Entry) -> Iterator[Record]:
    if entry.known is None:
        for it in entry.old:
            timestamp_ms = NO_TIME if it.timestamp is None else it.timestamp
            yield Record(entry.place, it.offset, timestamp_ms, it.key, it.value, [])
        return
    plain, header = unpacked(entry), entry.known
    bare = header._replace(
        length=HEADER.size - LENGTH_COUNTS_FROM + len(plain), attributes=header.attributes & ~CODEC_BITS
    )
    for it in DefaultRecordBatch(bare.packed() + plain):
        yield Record(entry.place, it.offset, it.timestamp, it.key, it.value, it.headers)


def _in_time(partitions: Iterable[Iterable[Record]]) -> Iterator[Record]:
    """Partitions woven into one; the order in each of them stays."""
    return heapq.merge(*partitions, key=lambda it: (it.timestamp_ms, it.place))
