"""What a partition's leader gives from an offset on; and its batches by their headers alone: whose, and where."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from kafka.protocol.consumer import FetchRequest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.batch import HEADER, LENGTH_COUNTS_FROM, BatchHeader
from onceward.kafka.codes import Meaning, code
from onceward.kafka.offsets import READ_UNCOMMITTED

if TYPE_CHECKING:
    from onceward.kafka.wire import Wire

FETCH_BYTES: Final = 8 << 20
WAIT_MS: Final = 500
ABORT: Final = b"\0\0"  # the type of a control record; a commit is 1
# Of its one record: length, attributes, two deltas and the key's length, each a byte; then the key's version and type.
_CONTROL_TYPE: Final = slice(7, 9)


def headers(wire: "Wire", place: TopicPartition, start: int, end: int) -> Iterator[BatchHeader]:
    """Every batch with an offset from `start` up to `end`, committed or not."""
    return (header for header, _ in batches(wire, place, start, end))


def batches(wire: "Wire", place: TopicPartition, start: int, end: int) -> Iterator[tuple[BatchHeader, bool]]:
    """The same, each with whether it is the end of a transaction that was aborted."""
    offset = start
    while offset < end:
        found = list(_fetched(wire, place, offset))
        if not found or found[-1][0].last_offset < offset:  # nothing there, or nothing new
            return
        for header, aborts in found:
            if header.base_offset >= end:
                return
            if header.last_offset >= offset:  # a fetch begins with the batch that holds the offset
                yield header, aborts
        offset = found[-1][0].last_offset + 1


def fetch(
    wire: "Wire",
    place: TopicPartition,
    offset: int,
    *,
    isolation: int = READ_UNCOMMITTED,
    max_bytes: int = FETCH_BYTES,
    wait_ms: int = WAIT_MS,
) -> Any:
    """The partition's part of an answer. Its last batch may be cut off; without records there is nothing yet."""

    def ask() -> Any:
        leaders = wire.topics([place.topic]).get(place.topic, [])
        if place.partition >= len(leaders):
            raise BrokerRefused(f"{place} is not there: deleted, or made again, since it was looked at")
        if leaders[place.partition] < 0:
            return None
        asked = request(place, offset, isolation=isolation, max_bytes=max_bytes, wait_ms=wait_ms)
        answer = wire.call(leaders[place.partition], asked)
        part = answer.responses[0].partitions[0]
        found = code(part.error_code)
        if found.meaning in (Meaning.RETRY, Meaning.MOVED):
            return None
        if found.meaning is not Meaning.ACCEPTED:
            raise BrokerRefused(f"{place} at {offset}: {found.name}, {found.says}")
        if answer.throttle_time_ms and not part.records:  # over a quota: the broker has not looked
            return None
        return part

    return wire.settle(ask, f"what {place} holds")


def _fetched(wire: "Wire", place: TopicPartition, offset: int) -> Iterator[tuple[BatchHeader, bool]]:
    data = bytes(fetch(wire, place, offset).records or b"")
    at = 0
    while at + HEADER.size <= len(data):  # the last batch may be cut off
        header = BatchHeader.of(data[at : at + HEADER.size])
        kind = data[at + HEADER.size :][_CONTROL_TYPE]
        if header.is_control and len(kind) < len(ABORT):  # it comes with the next fetch
            return
        yield header, header.is_control and kind == ABORT
        at += LENGTH_COUNTS_FROM + header.length


def request(place: TopicPartition, offset: int, *, isolation: int, max_bytes: int, wait_ms: int) -> FetchRequest:
    """From one partition's leader."""
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=place.partition,
        current_leader_epoch=-1,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=max_bytes,
    )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=0,
        session_epoch=-1,
        topics=[topic(topic=place.topic, partitions=[partition])],
        forgotten_topics_data=[],
        rack_id="",
        max_version=12,  # 13 wants topic ids
    )
