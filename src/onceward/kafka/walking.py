"""The batches of a partition by their headers alone, committed or not: whose they are, and where."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.batch import HEADER, BatchHeader
from onceward.kafka.cursor import Cursor, Leaders
from onceward.kafka.offsets import READ_UNCOMMITTED
from onceward.kafka.topics import compacted
from onceward.kafka.wire import Wire

ABORT: Final = b"\0\0"  # the type of a control record; a commit is 1
# Of its one record: length, attributes, two deltas and the key's length, each a byte; then the key's version and type.
_CONTROL_TYPE: Final = slice(HEADER.size + 7, HEADER.size + 9)


def headers(wire: Wire, place: TopicPartition, start: int, end: int) -> Iterator[BatchHeader]:
    """Every batch with an offset from `start` up to `end`."""
    return (header for header, _ in batches(wire, place, start, end))


def batches(
    wire: Wire, place: TopicPartition, start: int, end: int, clock: Callable[[], float] = time.monotonic
) -> Iterator[tuple[BatchHeader, bool]]:
    """The same, each with whether it is the end of a transaction that was aborted."""
    cursor = Cursor(Leaders(wire, clock), place, start, end, isolation=READ_UNCOMMITTED)
    if not cursor.is_done:
        cursor.is_compacted = place.topic in compacted(wire, [place.topic])
    while not cursor.is_done:
        for new in cursor.come():
            header = new.entry.header
            yield header, header.is_control and bytes(new.entry.data[_CONTROL_TYPE]) == ABORT
