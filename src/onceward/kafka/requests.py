"""The requests of one pipeline to its coordinators, and what their answers say: no decision is made here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest

from onceward.epoch.outcome import TopicPartition
from onceward.kafka import marker as markers
from onceward.kafka.codes import Code, Meaning, code
from onceward.kafka.marker import Marker
from onceward.kafka.transaction import Identity
from onceward.kafka.wire import GROUP, TRANSACTION, Wire

Held: TypeAlias = tuple[TopicPartition, int, str]  # a position of a group, and the metadata that was committed with it


@dataclass(frozen=True, slots=True)
class Committed:
    """What the pipeline's group holds: the last marker and the positions committed with it.

    `marked`: every place with a marker, older ones too, on partitions that are no longer read.
    """

    marker: Marker | None
    positions: Mapping[TopicPartition, int]
    marked: Mapping[TopicPartition, int] = field(default_factory=dict)


class Requests:
    """To the coordinator of the transactional id and to that of the group: both are called as the pipeline."""

    def __init__(self, wire: Wire, pipeline: str) -> None:
        self._wire = wire
        self._pipeline = pipeline

    def init(self, expected: Identity | None, timeout_ms: int) -> tuple[Code, Identity | None]:
        """InitProducerId; with an expected identity it succeeds only if nobody else has asked since (KIP-360)."""
        answer = self._wire.call_coordinator(
            self._pipeline,
            TRANSACTION,
            lambda: InitProducerIdRequest(
                transactional_id=self._pipeline,
                transaction_timeout_ms=timeout_ms,
                producer_id=expected.producer_id if expected else -1,
                producer_epoch=expected.producer_epoch if expected else -1,
                enable2_pc=False,
                keep_prepared_txn=False,
            ),
        )
        return self._judge(answer.error_code, TRANSACTION), _identity(answer)

    def end(self, identity: Identity, *, commit: bool) -> tuple[Code, Identity | None]:
        """EndTxn, and the identity of the next transaction."""
        answer = self._wire.call_coordinator(
            self._pipeline,
            TRANSACTION,
            lambda: EndTxnRequest(
                transactional_id=self._pipeline,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                committed=commit,
            ),
        )
        return self._judge(answer.error_code, TRANSACTION), _identity(answer)

    def mark(
        self, identity: Identity, positions: Mapping[TopicPartition, int], texts: Mapping[TopicPartition, str]
    ) -> Code:
        """TxnOffsetCommit: positions with their metadata, which count if the transaction commits."""
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        partition = topic.TxnOffsetCommitRequestPartition
        topics: dict[str, list[object]] = {}
        for place, offset in sorted(positions.items()):
            entry = partition(
                partition_index=place.partition,
                committed_offset=offset,
                committed_leader_epoch=-1,
                committed_metadata=texts[place],
            )
            topics.setdefault(place.topic, []).append(entry)
        answer = self._wire.call_coordinator(
            self._pipeline,
            GROUP,
            lambda: TxnOffsetCommitRequest(
                transactional_id=self._pipeline,
                group_id=self._pipeline,
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                generation_id=-1,
                member_id="",
                group_instance_id=None,
                topics=[topic(name=name, partitions=partitions) for name, partitions in topics.items()],
            ),
        )
        numbers = [partition.error_code for topic in answer.topics for partition in topic.partitions]
        return self._judge(next((number for number in numbers if number), 0), GROUP)

    def fetch(self, *, stable: bool) -> tuple[Code, Committed | None]:
        """The newest marker, and what was committed with it."""
        found, held = self.held(stable=stable)
        return found, None if held is None else _committed(held)

    def held(self, *, stable: bool) -> tuple[Code, list[Held] | None]:
        """OffsetFetch: all that the group holds; `stable`: an open transaction over it is an error code of its own."""
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        answer = self._wire.call_coordinator(
            self._pipeline,
            GROUP,
            lambda: OffsetFetchRequest(
                groups=[group(group_id=self._pipeline, member_id=None, member_epoch=-1, topics=None)],
                require_stable=stable,
                max_version=9,  # 10 wants topic ids
            ),
        ).groups[0]
        partitions = [(topic.name, partition) for topic in answer.topics for partition in topic.partitions]
        number = next((n for n in (answer.error_code, *(part.error_code for _, part in partitions)) if n), 0)
        held = [
            (TopicPartition(name, part.partition_index), part.committed_offset, part.metadata or "")
            for name, part in partitions
        ]
        return self._judge(number, GROUP), held if number == 0 else None

    def _judge(self, number: int, kind: int) -> Code:
        found = code(number)
        if found.meaning is Meaning.MOVED:
            self._wire.forget_coordinator(self._pipeline, kind)
        return found


def _identity(answer: Any) -> Identity | None:
    return Identity(answer.producer_id, answer.producer_epoch) if answer.error_code == 0 else None


def _committed(held: Sequence[Held]) -> Committed:
    """The newest marker, and the positions that were committed with it; without one, whatever the group holds."""
    newest = markers.newest(text for _, _, text in held)

    def belongs(text: str) -> bool:
        marker = markers.parse(text)
        return newest is None or (
            marker is not None and (marker.lineage, marker.epoch) == (newest.lineage, newest.epoch)
        )

    return Committed(
        newest,
        {place: offset for place, offset, text in held if belongs(text)},
        {place: offset for place, offset, text in held if markers.parse(text) is not None},
    )
