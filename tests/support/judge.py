"""A broker as tests see it, through another client library than ours."""

import itertools
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from kafka.protocol.admin.transactions import ListTransactionsRequest

from onceward.kafka.wire import Wire
from support.waiting import DEADLINE_S, eventually


@dataclass
class Kafka:
    """A broker seen by tests: topics of one's own, a plain feeder, judges that read everything."""

    bootstrap: str
    wire: Wire
    producer: Producer = field(init=False)
    _readers: threading.local = field(default_factory=threading.local)
    _opened: list[Consumer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.producer = Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )

    def close(self) -> None:
        for reader in self._opened:
            reader.close()

    def topic(self, partitions: int = 4, **settings: str) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.wire.create_topics([name], partitions, settings={k.replace("_", "."): v for k, v in settings.items()})
        return name

    def feed(self, topic: str, records: Iterable[tuple[str | bytes | None, str | bytes | None]]) -> None:
        for key, value in records:
            self.producer.produce(topic, key=key, value=value)
            self.producer.poll(0)
        assert self.producer.flush(30) == 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[Any]:
        """Every `Message` that is visible now, partition by partition in order; tests know which fields are there."""
        until = time.monotonic() + DEADLINE_S
        ends = self.end_offsets(topic, isolation)
        left = {partition for partition, end in ends.items() if end > 0}
        seen: dict[int, list[Message]] = {partition: [] for partition in ends}
        reader = self._reader(isolation)
        reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
        try:
            while left:
                assert time.monotonic() < until, f"{topic} could not be read to its end"
                message = reader.poll(0.2)
                if message is None or message.topic() != topic:
                    continue
                error = message.error()
                if error is None:
                    seen[_partition(message)].append(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(_partition(message))
        finally:
            reader.unassign()
        return list(itertools.chain.from_iterable(seen.values()))

    def values(self, topic: str, isolation: str = "read_committed") -> list[str]:
        return [message.value().decode() for message in self.read(topic, isolation)]

    def end_offsets(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, int]:
        """Where each partition ends; for read_committed, where its first open transaction begins."""
        places = [TopicPartition(topic, number) for number in range(len(self.wire.topics([topic])[topic]))]
        ends = {place.partition: self._end(place, isolation) for place in places}
        if isolation == "read_committed" and ends != self.end_offsets(topic):
            self._await_end_markers()
            ends = {place.partition: self._end(place, isolation) for place in places}
        return ends

    def _await_end_markers(self) -> None:
        """EndTxn answers before its end markers are written: at that moment nobody sees the transaction yet."""
        asked = ListTransactionsRequest(state_filters=["PrepareCommit", "PrepareAbort"])
        node = self.wire.any_node()  # the tests' clusters have one
        eventually(
            lambda: not self.wire.call(node, asked).transaction_states, "end markers of what has ended", every_s=0.005
        )

    def _end(self, place: TopicPartition, isolation: str) -> int:
        """A broker that a test has just restarted is asked again."""
        until = time.monotonic() + DEADLINE_S
        while True:
            try:
                _, end = self._reader(isolation).get_watermark_offsets(place, timeout=30)
            except KafkaException:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
            else:
                return int(end)

    def _reader(self, isolation: str) -> Consumer:
        """One for each thread: a new one idles for a second before its first record."""
        readers: dict[str, Consumer] = self._readers.__dict__
        if isolation not in readers:
            readers[isolation] = Consumer(
                {
                    "bootstrap.servers": self.bootstrap,
                    "group.id": f"judge-{uuid.uuid4().hex}",  # asked for, though nothing is committed
                    "isolation.level": isolation,
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    "fetch.wait.max.ms": 10,
                    "fetch.queue.backoff.ms": 10,
                    "reconnect.backoff.max.ms": 500,
                    "log_level": 0,
                }
            )
            self._opened.append(readers[isolation])
        return readers[isolation]


def _partition(message: Message) -> int:
    number = message.partition()
    assert number is not None
    return number
