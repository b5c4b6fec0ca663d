"""The committed records of ranges of offsets, as columns: what Spark's own source would give for the same ranges.

Whoever asks knows that all of a range is decided: its end is at or before the last stable offset that the leader has
told. What is not there (cleaned away, aborted, ends of transactions) is passed over; what Kafka has deleted is an
error.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from kafka.future import Future

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.batch import BatchHeader
from onceward.kafka.decoding import Malformed, Records, decode, decode_together
from onceward.kafka.fetching import FETCH_BYTES, fetch, request
from onceward.kafka.offsets import READ_COMMITTED
from onceward.kafka.reading import Aborted, unpacked, whole
from onceward.kafka.wire import REQUEST_TIMEOUT_MS, Wire

ASSUMED_BYTES: Final = 1000.0  # of a record, until some have come
LEAST_BYTES: Final = 1 << 16
TOGETHER_BYTES: Final = 1 << 19  # of small batches that are decoded as one
MARGIN: Final = 1.25
AHEAD_S: Final = REQUEST_TIMEOUT_MS / 1000


@dataclass(frozen=True, slots=True)
class Range:
    """Offsets of one partition, the end excluded."""

    place: TopicPartition
    start: int
    end: int


@dataclass(slots=True)
class RangeReader:
    """Asks for what comes next before it looks at what has come: leaders work meanwhile."""

    wire: Wire
    leaders: dict[str, list[int]] = field(default_factory=dict)  # as of some time ago
    record_bytes: float = ASSUMED_BYTES  # as it has turned out; a leader is asked for no more than a range needs

    def read(self, wanted: Iterable[Range]) -> Iterator[tuple[Range, Records]]:
        """All of them, batch by batch; in each range in order. The first answer of each is asked for at once."""
        asked = [(it, self._ask(it, it.start)) for it in wanted]
        for it, first in asked:
            yield from ((it, records) for records in self._read(it, first))

    def _read(self, wanted: Range, asked: Future | None) -> Iterator[Records]:
        at = wanted.start
        while at < wanted.end:
            part = self._come(wanted, asked) or self._answered(wanted, at)
            found, before = list(whole(part.records)), at
            self._learn(found)
            at = max([at, *(header.last_offset + 1 for header, _ in found)])
            asked = self._ask(wanted, at) if at < wanted.end else None
            yield from _within(wanted, found, Aborted(part.aborted_transactions))
            if at == before and part.records:
                raise Malformed(f"{wanted.place} at {at}: what its leader gives holds no whole batch of format v2")
            if at == before:  # no batch, though the leader is past the end: what was there has been cleaned away
                return

    def _ask(self, wanted: Range, at: int) -> Future | None:
        """None if it is not known whom; then it is found out where the answer is needed."""
        topic, number = wanted.place
        if topic not in self.leaders:
            self.leaders.update(self.wire.topics([topic]))
        leaders = self.leaders.get(topic, [])
        if number >= len(leaders) or leaders[number] < 0:
            return None
        asked = request(wanted.place, at, isolation=READ_COMMITTED, max_bytes=self._bytes(wanted, at), wait_ms=0)
        return self.wire.send(leaders[number], asked)

    def _bytes(self, wanted: Range, at: int) -> int:
        """About what is left of a range. Whatever is asked for, a leader gives at least one batch."""
        return min(max(int((wanted.end - at) * self.record_bytes), LEAST_BYTES), FETCH_BYTES)

    def _learn(self, found: list[tuple[BatchHeader, bytes]]) -> None:
        if records := sum(header.record_count for header, _ in found):
            self.record_bytes = sum(len(batch) for _, batch in found) / records * MARGIN

    def _come(self, wanted: Range, asked: Future | None) -> Any:
        """The answer, if there is nothing about it that has to be looked into."""
        deadline = time.monotonic() + AHEAD_S
        while asked is not None and not asked.is_done and time.monotonic() < deadline:
            self.wire.poll(AHEAD_S, asked)
        part = asked.value.responses[0].partitions[0] if asked is not None and asked.succeeded() else None
        if part is not None and part.error_code == 0 and part.records:
            return part
        self.leaders.pop(wanted.place.topic, None)
        return None

    def _answered(self, wanted: Range, at: int) -> Any:
        """Something new, or nothing from a leader that is past the end; a new leader may know less for a moment."""

        def ask() -> Any:
            most = self._bytes(wanted, at)
            part = fetch(self.wire, wanted.place, at, isolation=READ_COMMITTED, max_bytes=most, wait_ms=0)
            return part if part.records or part.last_stable_offset >= wanted.end else None

        return self.wire.settle(ask, f"{wanted.place} up to offset {wanted.end}")


def _within(wanted: Range, found: list[tuple[BatchHeader, bytes]], aborted: Aborted) -> Iterator[Records]:
    """What readers of committed records see of these batches, and what lies in the range."""
    held, size = list[tuple[BatchHeader, bytes]](), 0
    for header, batch in found:
        if aborted.hides(header) or header.base_offset >= wanted.end:
            continue
        section = unpacked(wanted.place, header, batch)
        if held and size + len(section) > TOGETHER_BYTES:
            yield from _decoded(wanted, held)
            held, size = [], 0
        held.append((header, section))
        size += len(section)
    if held:
        yield from _decoded(wanted, held)


def _decoded(wanted: Range, held: list[tuple[BatchHeader, bytes]]) -> Iterator[Records]:
    """As if they were one batch: looking at columns costs the same for ten records and for a thousand."""
    (header, section), counts = held[0], [it.record_count for it, _ in held]
    first = header.base_offset
    if len(held) == 1:
        is_full = header.last_offset_delta + 1 == header.record_count  # nothing was cleaned away: offsets are places
        records = decode(section, header.record_count, wanted.end - first if is_full else None)
    else:
        records = decode_together([it for _, it in held], counts)
        bases = np.array([it.base_offset - first for it, _ in held], np.int64)
        records = replace(records, deltas=records.deltas + np.repeat(bases, counts))
    inside = (records.deltas >= wanted.start - first) & (records.deltas < wanted.end - first)
    if inside.all():
        yield records
    elif inside.any():
        yield records.taken(np.flatnonzero(inside))
