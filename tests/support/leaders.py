"""Partition leaders in memory, for what a real broker shows only by chance: which answer comes, and when.

They treat sequences as Kafka does. Stands in for `onceward.kafka.wire.Wire`, so that the production sender runs on it
with the real request classes; one request is answered at a time, the oldest first, as on one connection.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from kafka.errors import KafkaConnectionError
from kafka.future import Future
from kafka.protocol.producer import ProduceRequest

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.batch import HEADER, BatchHeader
from onceward.kafka.records import Columns, Compression, encode
from onceward.kafka.wire import Cluster
from support.clocks import MONOTONIC

REMEMBERED = 5  # batches of a producer and partition that a broker recognises


class Accident(Enum):
    """What becomes of a request's answer."""

    ANSWER_LOST = "carried out, and nobody hears of it"
    REQUEST_LOST = "never arrived"


@dataclass
class Log:
    """One partition: the batches it has taken, and what it will answer to the next ones (0: as Kafka does)."""

    taken: list[tuple[BatchHeader, bytes]] = field(default_factory=list)
    script: deque[int | Accident] = field(default_factory=deque)

    def offer(self, batch: bytes) -> tuple[int, int]:
        """Error code and base offset. As on a broker: only the numbers are compared, never the bytes."""
        header = BatchHeader.of(batch)
        offset = sum(known.record_count for known, _ in self.taken)
        if not self.taken:  # a partition that does not know the producer takes whatever sequence comes first
            return self._take(header, batch, 0)
        for known, _ in reversed(self.taken[-REMEMBERED:]):
            offset -= known.record_count
            if (known.base_sequence, known.record_count) == (header.base_sequence, header.record_count):
                return 0, offset
        newest = self.taken[-1][0]
        if header.base_sequence != newest.base_sequence + newest.record_count:
            return 45, -1
        return self._take(header, batch, sum(known.record_count for known, _ in self.taken))

    def _take(self, header: BatchHeader, batch: bytes, offset: int) -> tuple[int, int]:
        self.taken.append((header, batch))
        return 0, offset


class Leaders:
    """The brokers of some topics: topic to the leader of each partition. `now` moves with every poll."""

    def __init__(self, topics: Mapping[str, list[int]]) -> None:
        self.cluster = Cluster("leaders:9092")
        self.leaders = dict(topics)
        self.now = MONOTONIC
        self.asked_for_topics = 0
        self.requests: list[tuple[int, list[TopicPartition]]] = []
        self.most: dict[TopicPartition, int] = {}  # batches of a partition on their way before it had taken any
        self._logs: dict[TopicPartition, Log] = {}
        self._unanswered: deque[tuple[Any, Future]] = deque()

    def log(self, topic: str, partition: int = 0) -> Log:
        return self._logs.setdefault(TopicPartition(topic, partition), Log())

    def values(self, topic: str, partition: int = 0) -> list[bytes]:
        """What the partition holds, in order: the batches' records as they were made by `payload`."""
        return [batch[HEADER.size :] for _, batch in self.log(topic, partition).taken]

    @property
    def waited(self) -> float:
        """How much time has passed."""
        return self.now - MONOTONIC

    def clock(self) -> float:
        return self.now

    def topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        self.asked_for_topics += 1
        return {name: list(self.leaders[name]) for name in names if name in self.leaders}

    def send(self, node: int, request: Any) -> Future:
        assert isinstance(request, ProduceRequest)
        assert (request.acks, request.timeout_ms) == (-1, 20_000)
        future = Future()
        self._unanswered.append((request, future))
        self.requests.append((node, [place for place, _ in _batches(request)]))
        for place, _ in _batches(request):
            if not self.log(*place).taken:
                flying = sum(place == other for made, _ in self._unanswered for other, _ in _batches(made))
                self.most[place] = max(self.most.get(place, 0), flying)
        return future

    def poll(self, timeout_s: float, future: Future | None = None) -> None:
        assert future is None or not future.is_done
        self.now += timeout_s
        if not self._unanswered:
            return
        request, answered = self._unanswered.popleft()
        found = [(place, self._answer(place, batch)) for place, batch in _batches(request)]
        if any(answer is None for _, answer in found):
            answered.failure(KafkaConnectionError("by the test"))
            return
        parts = [
            SimpleNamespace(
                name=place.topic,
                partition_responses=[
                    SimpleNamespace(index=place.partition, error_code=answer[0], base_offset=answer[1])
                ],
            )
            for place, answer in found
        ]
        answered.success(SimpleNamespace(responses=parts))

    def _answer(self, place: TopicPartition, batch: bytes) -> tuple[int, int] | None:
        """None: nobody hears it."""
        log = self.log(*place)
        said = log.script.popleft() if log.script else 0
        if said == 0:
            return log.offer(batch)
        if said is Accident.ANSWER_LOST:
            log.offer(batch)
        return None if isinstance(said, Accident) else (said, -1)


def payload(*values: bytes, timestamp_ms: int = 0) -> bytes:
    """A record batch that no producer owns yet."""
    (batch,) = encode(
        Columns(value=pa.array(values, pa.binary())),
        np.zeros(len(values), np.int32),
        np.arange(len(values)),
        compression=Compression.NONE,
        max_batch_bytes=1 << 20,
        timestamp_ms=timestamp_ms,
    )
    return batch.payload


def _batches(request: Any) -> list[tuple[TopicPartition, bytes]]:
    return [
        (TopicPartition(topic.name, part.index), bytes(part.records))
        for topic in request.topic_data
        for part in topic.partition_data
    ]
