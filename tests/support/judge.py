"""A broker as tests see it, through another client library than ours."""

import itertools
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition

from onceward.kafka.wire import Wire
from support.waiting import DEADLINE_S


@dataclass
class Kafka:
    """A broker seen by tests: topics of one's own, a plain feeder, judges that read everything."""

    bootstrap: str
    wire: Wire
    producer: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5})

    def topic(self, partitions: int = 4, **settings: str) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        self.wire.create_topics([name], partitions, settings={k.replace("_", "."): v for k, v in settings.items()})
        return name

    def feed(self, topic: str, records: Iterable[tuple[str | bytes | None, str | bytes | None]]) -> None:
        for key, value in records:
            self.producer.produce(topic, key=key, value=value)
            self.producer.poll(0)
        assert self.producer.flush(30) == 0

    def read(self, topic: str, isolation: str = "read_committed") -> list[Message]:
        """Everything that is visible now, partition by partition in order."""
        partitions = len(self.wire.topics([topic])[topic])
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": f"judge-{uuid.uuid4().hex}",
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 10,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in range(partitions)])
            seen: dict[int, list[Message]] = {p: [] for p in range(partitions)}
            ended: set[int] = set()
            until = time.monotonic() + DEADLINE_S
            while len(ended) < partitions:
                assert time.monotonic() < until, f"{topic} could not be read to its end"
                for message in consumer.consume(5000, 0.2):
                    if message.error():
                        ended.add(message.partition())
                    else:
                        seen[message.partition()].append(message)
            return list(itertools.chain.from_iterable(seen.values()))
        finally:
            consumer.close()

    def values(self, topic: str, isolation: str = "read_committed") -> list[str]:
        return [message.value().decode() for message in self.read(topic, isolation)]

    def end_offsets(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, int]:
        """Where each partition ends; for read_committed, where its first open transaction begins."""
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "watermarks", "isolation.level": isolation}
        consumer = Consumer(settings)
        try:
            partitions = range(len(self.wire.topics([topic])[topic]))
            return {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in partitions}
        finally:
            consumer.close()
