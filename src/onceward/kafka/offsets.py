"""Where topics end, and which ones they are: asked of each partition's leader."""

import base64
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from kafka.protocol.consumer import ListOffsetsRequest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.codes import Meaning, code

if TYPE_CHECKING:
    from onceward.kafka.wire import Wire

EARLIEST: Final = -2
LATEST: Final = -1
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1  # the end is then where the first open transaction begins


def id_text(number: UUID) -> str:
    """A topic's id as Kafka's own tools write it."""
    return base64.urlsafe_b64encode(number.bytes).decode().rstrip("=")


def offsets(
    wire: "Wire", topics: Iterable[str], at: int, isolation: int = READ_UNCOMMITTED
) -> dict[TopicPartition, int]:
    """The first offset (`EARLIEST`) or the one after the last (`LATEST`) of every partition; waits for leaders.

    `at` may also be a time in milliseconds: the first offset of that time or later, -1 where there is none.
    """
    names = sorted(set(topics))
    if not names:
        return {}
    found: dict[TopicPartition, int] = {}

    def ask() -> bool | None:
        for name, leaders in wire.topics(names).items():
            for partition, node in enumerate(leaders):
                place = TopicPartition(name, partition)
                if place not in found and node < 0:
                    return None
                if place not in found and not _learn(wire.call(node, _request(place, at, isolation)), place, found):
                    return None
        return True

    wire.settle(ask, f"the offsets of {', '.join(names)}")
    return found


def _request(place: TopicPartition, at: int, isolation: int) -> ListOffsetsRequest:
    topic = ListOffsetsRequest.ListOffsetsTopic
    partition = topic.ListOffsetsPartition(partition_index=place.partition, current_leader_epoch=-1, timestamp=at)
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[topic(name=place.topic, partitions=[partition])],
        max_version=7,
    )


def _learn(answer: Any, place: TopicPartition, found: dict[TopicPartition, int]) -> bool:
    """False: not now. After an election the new leader first finds out what is committed (OFFSET_NOT_AVAILABLE)."""
    told = answer.topics[0].partitions[0]
    meaning = code(told.error_code)
    if meaning.meaning in (Meaning.RETRY, Meaning.MOVED):
        return False
    if meaning.meaning is not Meaning.ACCEPTED:
        raise BrokerRefused(f"the end of {place}: {meaning.name}, {meaning.says}")
    found[place] = told.offset
    return True
