"""Topics for benchmarks: made, filled, counted, dropped."""

import time
import uuid

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from onceward.epoch.outcome import TopicPartition as Place
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.partitioning import partitions
from onceward.kafka.records import Columns, Compression, encode
from onceward.kafka.sender import Sender
from onceward.kafka.wire import Cluster, Wire

PARTITIONS = 4


class Bench:
    """A cluster under measurement."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.wire = Wire(Cluster(bootstrap))
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def topic(self) -> str:
        name = f"bench-{uuid.uuid4().hex[:10]}"
        self.wire.create_topics([name], PARTITIONS)
        return name

    def drop(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(30)

    def count(self, topic: str) -> int:
        """Records a read_committed consumer gets."""
        reader = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": topic,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
                "fetch.queue.backoff.ms": 10,
            }
        )
        reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        found, ended = 0, 0
        while ended < PARTITIONS:
            for message in reader.consume(10_000, 1.0):
                if message.error():
                    ended += 1
                else:
                    found += 1
        reader.close()
        return found


def preload(bootstrap: str, topic: str, count: int) -> None:
    """Records of 100 bytes: a key of 10, a value of 90."""
    wire = Wire(Cluster(bootstrap))
    producer = IdempotentProducer(wire, "preload")
    producer.begin()
    sender = Sender(wire, producer.identity, None)
    for start in range(0, count, 100_000):
        numbers = range(start, min(count, start + 100_000))
        keys = pa.array([b"k%09d" % (number * 2654435761 % 1_000_000) for number in numbers], pa.binary())
        values = pa.array([b"%010d" % number + b"v" * 80 for number in numbers], pa.binary())
        hashes = pa.array(numbers, pa.int64()).to_numpy()
        routes = partitions(keys, hashes, PARTITIONS)
        stamp = time.time_ns() // 1_000_000
        columns = Columns(key=keys, value=values)
        for batch in encode(
            columns, routes, hashes, compression=Compression.NONE, max_batch_bytes=1_000_000, timestamp_ms=stamp
        ):
            sender.send(Place(topic, batch.route), batch.payload, batch.count)
    sender.flush()
    wire.close()
