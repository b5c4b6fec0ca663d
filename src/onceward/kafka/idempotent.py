"""The weaker guarantees' producer: idempotent, without a transaction. Records are visible as they are written."""

from collections.abc import Mapping

from kafka.protocol.consumer import OffsetCommitRequest
from kafka.protocol.producer import InitProducerIdRequest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.codes import Meaning, code
from onceward.kafka.transaction import Identity
from onceward.kafka.wire import GROUP, Wire


class IdempotentProducer:
    """A fresh producer id for each try, and group offsets that say how far the pipeline is."""

    def __init__(self, wire: Wire, group: str) -> None:
        self._wire = wire
        self._group = group
        self._identity: Identity | None = None

    @property
    def identity(self) -> Identity:
        """The producer id of the current try."""
        if self._identity is None:
            raise AssertionError("begin() comes first")
        return self._identity

    def begin(self) -> None:
        """A producer id of its own for this try, so that sequences start at 0."""
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=0,
            producer_id=-1,
            producer_epoch=-1,
            enable2_pc=False,
            keep_prepared_txn=False,
        )

        def ask() -> Identity | None:
            answer = self._wire.call(self._wire.any_node(), request)
            found = code(answer.error_code)
            if found.meaning is Meaning.REFUSED:
                raise BrokerRefused(f"no producer id: {found.name}, {found.says}")
            accepted = found.meaning is Meaning.ACCEPTED
            return Identity(answer.producer_id, answer.producer_epoch) if accepted else None

        self._identity = self._wire.settle(ask, "a producer id")

    def commit_positions(self, positions: Mapping[TopicPartition, int]) -> None:
        """Plain group offsets, for lag tools; recovery does not read them."""
        if not positions:
            return
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        topics: dict[str, list[object]] = {}
        for place, offset in sorted(positions.items()):
            entry = topic.OffsetCommitRequestPartition(
                partition_index=place.partition,
                committed_offset=offset,
                committed_leader_epoch=-1,
                committed_metadata="",
            )
            topics.setdefault(place.topic, []).append(entry)
        request = OffsetCommitRequest(
            group_id=self._group,
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[topic(name=name, partitions=partitions) for name, partitions in topics.items()],
            max_version=9,  # 10 wants topic ids
        )

        def ask() -> bool | None:
            answer = self._wire.call_coordinator(self._group, GROUP, lambda: request)
            numbers = [part.error_code for topic in answer.topics for part in topic.partitions if part.error_code]
            found = code(numbers[0] if numbers else 0)
            if found.meaning is Meaning.REFUSED:
                raise BrokerRefused(f"group {self._group!r}: {found.name}, {found.says}")
            if found.meaning is Meaning.MOVED:
                self._wire.forget_coordinator(self._group, GROUP)
            return True if found.meaning is Meaning.ACCEPTED else None

        self._wire.settle(ask, f"the offsets of group {self._group!r}")
