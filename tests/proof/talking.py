"""The same requests to two brokers, the real one and the one in memory; what they answer is written down alike."""

import time
from typing import Any

import numpy as np
import pyarrow as pa
from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.producer import EndTxnRequest, InitProducerIdRequest, ProduceRequest, TxnOffsetCommitRequest

from onceward.kafka.records import Columns, Compression, encode, stamp
from onceward.kafka.wire import GROUP, TRANSACTION, Wire
from onceward.proof.simulation.broker import Broker
from onceward.proof.simulation.wire import carry_out
from support.judge import Kafka
from support.waiting import DEADLINE_S, eventually

NOT_YET = frozenset({3, 5, 6, 14, 15, 16, 19, 51, 88})  # a client asks again, so the final answer counts
Identity = tuple[int, int]


class Talk:
    """A conversation. Producer ids are written down by the order in which they appeared."""

    def __init__(self, name: str, topic: str) -> None:
        self.name, self.topic = name, topic
        self.lines: list[tuple[Any, ...]] = []
        self.transactional_id: str | None = name  # None: without a transaction
        self._ids: dict[int, str] = {-1: "none"}

    def init(self, expected: Identity | None = None, timeout_ms: int = 60_000) -> Identity:
        pid, epoch = expected or (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, producer_id=pid,
            producer_epoch=epoch, enable2_pc=False, keep_prepared_txn=False,
        )  # fmt: skip
        answer = self._settled(lambda: self.ask(request, TRANSACTION), lambda found: found.error_code)
        identity = (answer.producer_id, answer.producer_epoch)
        self.note("init", answer.error_code, *self._known(identity))
        return identity

    def end(self, identity: Identity, commit: bool) -> Identity:
        request = EndTxnRequest(
            transactional_id=self.name, producer_id=identity[0], producer_epoch=identity[1], committed=commit
        )
        answer = self._settled(lambda: self.ask(request, TRANSACTION), lambda found: found.error_code)
        following = (answer.producer_id, answer.producer_epoch) if answer.error_code == 0 else (-1, -1)
        self.note("end", answer.error_code, *self._known(following))
        return following

    def mark(self, identity: Identity, offset: int, text: str) -> None:
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        part = topic.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=text
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name, group_id=self.name, producer_id=identity[0], producer_epoch=identity[1],
            generation_id=-1, member_id="", group_instance_id=None, topics=[topic(name=self.topic, partitions=[part])],
        )  # fmt: skip
        answer = self._settled(lambda: self.ask(request, GROUP), lambda found: found.topics[0].partitions[0].error_code)
        self.note("mark", answer.topics[0].partitions[0].error_code)

    def commit(self, offset: int) -> None:
        """The group's offset, without a transaction."""
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        part = topic.OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self.name, generation_id_or_member_epoch=-1, member_id="", group_instance_id=None,
            topics=[topic(name=self.topic, partitions=[part])], max_version=9,
        )  # fmt: skip
        answer = self._settled(lambda: self.ask(request, GROUP), lambda found: found.topics[0].partitions[0].error_code)
        self.note("commit", answer.topics[0].partitions[0].error_code)

    def marker(self, *, wait: bool = True, some: bool = True) -> None:
        """The group's offset; without waiting, an open transaction shows as unstable.

        EndTxn is answered before its end markers are written, and a group's first offset is not listed until then:
        where `some` is to be expected, it is waited for.
        """
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        request = OffsetFetchRequest(
            groups=[group(group_id=self.name, member_id=None, member_epoch=-1, topics=None)],
            require_stable=True,
            max_version=9,
        )

        def number(found: Any) -> int:
            parts = [part for topic in found.groups[0].topics for part in topic.partitions]
            return next((part.error_code for part in parts if part.error_code), 0 if parts or not some else 51)

        answer = self._settled(lambda: self.ask(request, GROUP), number if wait else lambda _: 0)
        parts = [part for topic in answer.groups[0].topics for part in topic.partitions]
        self.note("marker", [(part.error_code, part.committed_offset, part.metadata or "") for part in parts])

    def produce(self, identity: Identity, partition: int, sequence: int, *values: str) -> None:
        self.note(
            "produce", self._settled(lambda: self.write(identity, partition, sequence, values), lambda code: code)
        )

    def look(self) -> None:
        for isolation in ("read_committed", "read_uncommitted"):
            self.note(isolation, self.visible(isolation))

    def note(self, *line: Any) -> None:
        self.lines.append(line)

    def _known(self, identity: Identity) -> tuple[str, int]:
        return self._ids.setdefault(identity[0], f"producer {len(self._ids)}"), identity[1]

    def _settled(self, ask: Any, number: Any) -> Any:
        until = time.monotonic() + DEADLINE_S
        while number(answer := ask()) in NOT_YET:
            assert time.monotonic() < until, "still not settled"
            self.rest()
        return answer

    def ask(self, request: Any, kind: int) -> Any:
        raise NotImplementedError

    def write(self, identity: Identity, partition: int, sequence: int, values: tuple[str, ...]) -> int:
        raise NotImplementedError

    def visible(self, isolation: str) -> list[str]:
        raise NotImplementedError

    def time_out(self) -> None:
        raise NotImplementedError

    def rest(self) -> None:
        raise NotImplementedError


class RealTalk(Talk):
    """With a broker of Kafka's own."""

    def __init__(self, name: str, topic: str, wire: Wire, kafka: Kafka) -> None:
        super().__init__(name, topic)
        self._wire, self._kafka = wire, kafka

    def end(self, identity: Identity, commit: bool) -> Identity:
        """A broker answers before it has written the end markers, and until then takes what comes late."""
        following = super().end(identity, commit)
        if following[0] >= 0:
            eventually(self._readable_to_the_end, "the end markers are written")
        return following

    def _readable_to_the_end(self) -> bool:
        return self._kafka.end_offsets(self.topic, "read_committed") == self._kafka.end_offsets(self.topic)

    def ask(self, request: Any, kind: int) -> Any:
        return self._wire.call_coordinator(self.name, kind, lambda: request)

    def write(self, identity: Identity, partition: int, sequence: int, values: tuple[str, ...]) -> int:
        (batch,) = encode(
            Columns(value=pa.array([value.encode() for value in values], pa.binary())),
            np.zeros(len(values), np.int32),
            np.arange(len(values)),
            compression=Compression.NONE,
            max_batch_bytes=1 << 20,
            timestamp_ms=time.time_ns() // 1_000_000,
        )
        payload = stamp(
            batch.payload, producer_id=identity[0], producer_epoch=identity[1], base_sequence=sequence,
            transactional=self.transactional_id is not None,
        )  # fmt: skip
        data = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=20_000,
            topic_data=[
                data(name=self.topic, partition_data=[data.PartitionProduceData(index=partition, records=payload)])
            ],
            max_version=12,
        )
        answer = self._wire.call(self._wire.topics([self.topic])[self.topic][partition], request)
        return int(answer.responses[0].partition_responses[0].error_code)

    def visible(self, isolation: str) -> list[str]:
        if isolation == "read_committed":  # the end markers follow the answer
            self._kafka.read(self.topic)
        return self._kafka.values(self.topic, isolation)

    def time_out(self) -> None:
        ends = self._kafka.end_offsets
        eventually(lambda: ends(self.topic, "read_committed") == ends(self.topic), "the broker's abort")

    def rest(self) -> None:
        time.sleep(0.02)


class MemoryTalk(Talk):
    """With the one in memory."""

    def __init__(self, name: str, topic: str) -> None:
        super().__init__(name, topic)
        self.broker = Broker()
        self.broker.create(topic, 2)

    def ask(self, request: Any, kind: int) -> Any:  # noqa: ARG002 - one broker is everything
        return carry_out(self.broker, request)

    def write(self, identity: Identity, partition: int, sequence: int, values: tuple[str, ...]) -> int:
        return self.broker.produce(
            self.transactional_id, identity, (self.topic, partition), sequence, len(values), values
        )[0]

    def visible(self, isolation: str) -> list[str]:
        self.broker.settle()
        logs = [log for _, log in sorted(self.broker.logs.items())]
        committed = isolation == "read_committed"
        return [value for log in logs for batch in log.visible(committed=committed) for value in batch.rows]

    def time_out(self) -> None:
        self.broker.time_out(self.name)
        self.broker.settle()

    def rest(self) -> None:
        self.broker.settle()
