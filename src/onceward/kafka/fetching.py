"""A request for what a partition holds from an offset on, and what a leader's answer says about that partition."""

from typing import Any, Final

from kafka.protocol.consumer import FetchRequest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.codes import Meaning, code

FETCH_BYTES: Final = 8 << 20


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


def part_of(answer: Any, place: TopicPartition, offset: int) -> Any | None:
    """The partition's part of an answer; None: not now. Empty records are no statement about what there is.

    A broker that throttles answers without any topic, and without an error.
    """
    part = next(
        (
            part
            for topic in answer.responses
            for part in topic.partitions
            if (topic.topic, part.partition_index) == place
        ),
        None,
    )
    for number in (answer.error_code, part.error_code if part is not None else 0):
        found = code(number)
        if found.meaning in (Meaning.RETRY, Meaning.MOVED):
            return None
        if found.meaning is not Meaning.ACCEPTED:
            raise BrokerRefused(f"{place} at {offset}: {found.name}, {found.says}")
    return part
