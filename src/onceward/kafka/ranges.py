"""The committed records of ranges of offsets, as columns: what Spark's own source would give for the same ranges.

Whoever asks knows that all of a range is decided: its end is at or before the last stable offset that the leader has
told. What is not there (cleaned away, aborted, ends of transactions) is passed over; what Kafka has deleted is an
error, and so is what does not come.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

import numpy as np

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.cursor import Cursor, Leaders, New
from onceward.kafka.decoding import Records, decode, decode_together
from onceward.kafka.entries import unpacked
from onceward.kafka.fetching import FETCH_BYTES
from onceward.kafka.wire import Wire

ASSUMED_BYTES: Final = 1000.0  # of a record, until some have come
LEAST_BYTES: Final = 1 << 16
TOGETHER_BYTES: Final = 1 << 19  # of small batches that are decoded as one
MARGIN: Final = 1.25
PATIENCE_S: Final = 5.0  # then it is Spark's to read, which waits for two minutes
AHEAD: Final = 4  # ranges that are asked for at a time: a connection takes 16 requests, and the sender has its own


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition, the end excluded."""

    place: TopicPartition
    start: int
    end: int
    is_compacted: bool = False  # the topic is known to be: offsets may be missing between two batches


class RangeReader:
    """Asks for what comes next before it looks at what has come: leaders work meanwhile."""

    def __init__(self, wire: Wire, clock: Callable[[], float] = time.monotonic) -> None:
        self.wire = wire
        self.record_bytes = ASSUMED_BYTES  # as it has turned out; a leader is asked for no more than a range needs
        self._leaders = Leaders(wire, clock)

    def read(self, wanted: Iterable[Range]) -> Iterator[tuple[Range, Records]]:
        """All of them, batch by batch; in each range in order. Some ranges are asked for ahead."""
        coming = map(self._begin, wanted)
        ahead = deque(islice(coming, AHEAD))
        while ahead:
            one, cursor = ahead.popleft()
            yield from ((one, records) for records in self._read(one, cursor))
            ahead.extend(islice(coming, 1))

    def _begin(self, wanted: Range) -> tuple[Range, Cursor]:
        cursor = Cursor(
            self._leaders,
            wanted.place,
            wanted.start,
            wanted.end,
            is_compacted=wanted.is_compacted,
            patience_s=PATIENCE_S,
        )
        self._ask(cursor, wanted)
        return wanted, cursor

    def _ask(self, cursor: Cursor, wanted: Range) -> None:
        """For about what is left of a range. Whatever is asked for, a leader gives at least one batch."""
        if not cursor.is_done:
            needed = int((wanted.end - cursor.at) * self.record_bytes)
            cursor.max_bytes = min(max(needed, LEAST_BYTES), FETCH_BYTES)
            cursor.ask()

    def _read(self, wanted: Range, cursor: Cursor) -> Iterator[Records]:
        while not cursor.is_done:
            found = cursor.come()
            self._learn(found)
            self._ask(cursor, wanted)
            yield from _within(wanted, found)

    def _learn(self, found: list[New]) -> None:
        if records := sum(new.entry.header.record_count for new in found):
            self.record_bytes = sum(len(new.entry.data) for new in found) / records * MARGIN


def _within(wanted: Range, found: list[New]) -> Iterator[Records]:
    """What readers of committed records see of these batches, and what lies in the range."""
    held, size = list[tuple[New, bytes]](), 0
    for new in found:
        if new.is_hidden or not (section := unpacked(new.entry)):
            continue
        if held and size + len(section) > TOGETHER_BYTES:
            yield from _decoded(wanted, held)
            held, size = [], 0
        held.append((new, section))
        size += len(section)
    if held:
        yield from _decoded(wanted, held)


def _decoded(wanted: Range, held: list[tuple[New, bytes]]) -> Iterator[Records]:
    """As if they were one batch: looking at columns costs the same for ten records and for a thousand."""
    (new, section), counts = held[0], [it.entry.header.record_count for it, _ in held]
    first = new.entry.first
    since = np.array([it.since - first for it, _ in held], np.int64)
    if len(held) == 1:
        header = new.entry.header
        is_full = header.last_offset_delta + 1 == header.record_count  # nothing was cleaned away: offsets are places
        records = decode(section, header.record_count, wanted.end - first if is_full else None)
    else:
        records = decode_together([it for _, it in held], counts)
        bases = np.array([it.entry.first - first for it, _ in held], np.int64)
        records = replace(records, deltas=records.deltas + np.repeat(bases, counts))
        since = np.repeat(since, counts)
    inside = (records.deltas >= since) & (records.deltas < wanted.end - first)
    if inside.all():
        yield records
    elif inside.any():
        yield records.taken(np.flatnonzero(inside))
