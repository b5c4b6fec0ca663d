"""A broker as the stories use it: topics of their own, one request at a time, and its answer by name."""

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import numpy as np
import pyarrow as pa
from kafka.protocol.admin.transactions import ListTransactionsRequest
from kafka.protocol.producer import ProduceRequest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerUnreachable
from onceward.kafka.codes import Meaning, code
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.records import Columns, Compression, encode, stamp
from onceward.kafka.requests import Requests
from onceward.kafka.transaction import Identity
from onceward.kafka.wire import Cluster, Wire
from onceward.textbook.kafka.reader import Isolation, Reader, reader
from onceward.textbook.stage import Stage

NOBODY: Final = Identity(-1, -1)  # how Kafka writes "this producer has no id"
PRODUCE_TIMEOUT_MS: Final = 20_000
DEADLINE_S: Final = 20.0
RETRY_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class Answer:
    """What the broker said to one Produce request."""

    error: str  # NONE, or the error's name in Kafka's own list
    offset: int  # of the batch's first record; -1 with an error

    @property
    def accepted(self) -> bool:
        return self.error == "NONE"


class Ground:
    """One story's place on a broker that it may share with others."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.bootstrap = stage.broker().bootstrap
        self.wire = Wire(Cluster(self.bootstrap))
        self._readers: dict[Isolation, Reader] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wire.close()
        for opened in self._readers.values():
            opened.close()

    def topic(self, name: str, *values: str) -> TopicPartition:
        """A new topic with one partition, and these records in it."""
        place = TopicPartition(self.unique(name), 0)
        self.wire.create_topics([place.topic], 1)
        if values:
            assert produce(self.wire, place, batch(*values)).accepted
        return place

    def unique(self, name: str) -> str:
        return self._stage.unique(name)

    def producer(self) -> Identity:
        """A new producer id, without a transactional id: what a producer gets each time it starts."""
        made = IdempotentProducer(self.wire, "")
        made.begin()
        return made.identity

    def seen(self, place: TopicPartition, isolation: Isolation = "read_committed") -> list[str]:
        """What a reader sees now. Transactions that have ended are waited for, open ones are not."""
        self._await_end_markers()
        if isolation not in self._readers:
            self._readers[isolation] = reader(self.bootstrap, isolation)
        return self._readers[isolation].read(place)

    def position(self, group: str, source: TopicPartition) -> int:
        """How far a group says it is."""
        return position(self.wire, group, source)

    def _await_end_markers(self) -> None:
        """EndTxn answers before its end markers are written: at that moment nobody sees the transaction yet."""
        asked, deadline = ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort"]), _deadline()
        while self.wire.call(self.wire.any_node(), asked).transaction_states:
            _wait(deadline, "the end markers of a transaction")


def batch(*values: str, producer: Identity = NOBODY, sequence: int = -1, transactional: bool = False) -> bytes:
    """A record batch as it goes over the wire, under a producer's identity."""
    (made,) = encode(
        Columns(value=pa.array([value.encode() for value in values], pa.binary())),
        np.zeros(len(values), np.int32),
        np.arange(len(values)),
        compression=Compression.NONE,
        max_batch_bytes=1 << 20,
        timestamp_ms=time.time_ns() // 1_000_000,  # an old one would fall to the topic's retention
    )
    return stamp(
        made.payload,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def produce(
    wire: Wire, place: TopicPartition, records: bytes, *, transactional_id: str | None = None, node: int | None = None
) -> Answer:
    """One Produce request, sent once, but for "not yet": `AnswerLost` if nobody answers."""
    deadline, data = _deadline(), ProduceRequest.TopicProduceData
    while True:
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=-1,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[
                data(
                    name=place.topic,
                    partition_data=[data.PartitionProduceData(index=place.partition, records=records)],
                )
            ],
            max_version=12,  # 13 wants topic ids
        )
        leader = wire.topics([place.topic])[place.topic][place.partition] if node is None else node
        found = wire.call(leader, request).responses[0].partition_responses[0]
        answer = code(found.error_code)
        # A topic that was just made, or a transaction that is just enrolling; a gap is no "not yet" here.
        if answer.meaning not in (Meaning.RETRY, Meaning.MOVED) or answer.name == "OUT_OF_ORDER_SEQUENCE_NUMBER":
            return Answer(answer.name, int(found.base_offset))
        _wait(deadline, f"{place} ({answer.name})")


def position(wire: Wire, group: str, source: TopicPartition) -> int:
    """The committed offset of a group, 0 if it has none; an open transaction over it is waited for."""
    deadline = _deadline()
    while True:
        answer, held = Requests(wire, group).fetch(stable=True)
        if held is not None:
            return held.positions.get(source, 0)
        _wait(deadline, f"the offsets of group {group!r} ({answer.name})")


def _deadline() -> float:
    return time.monotonic() + DEADLINE_S


def _wait(deadline: float, what: str) -> None:
    if time.monotonic() > deadline:
        raise BrokerUnreachable(f"the broker was not ready with {what} within {DEADLINE_S:.0f} s")
    time.sleep(RETRY_S)
