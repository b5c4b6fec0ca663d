"""Topics for benchmarks: made, filled, judged, dropped."""

import time
import uuid
from collections.abc import Iterator

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.content import KEY_BYTES, Verdict, column, keys_of, values_of
from onceward.epoch.outcome import TopicPartition as Place
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.partitioning import partitions
from onceward.kafka.records import Columns, Compression, encode
from onceward.kafka.sender import Sender
from onceward.kafka.wire import Cluster, Wire

PARTITIONS = 4
AT_ONCE = 50_000
READ_TIMEOUT_S = 300.0
SETTLE_S = 10.0
QUIET = {"log_level": 0}  # its threads outlive the broker for a moment, and would complain
EOF_CODE = KafkaError._PARTITION_EOF  # noqa: SLF001 - that is its public name


class Topics:
    """A cluster under measurement."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.wire = Wire(Cluster(bootstrap))
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def new(self, count: int = PARTITIONS) -> str:
        name = f"bench-{uuid.uuid4().hex[:10]}"
        self.wire.create_topics([name], count)
        return name

    def drop(self, topic: str) -> None:
        self._admin.delete_topics([topic])[topic].result(30)

    def filled(self, records: int, size: int, count: int = PARTITIONS) -> str:
        """A topic with so many records of so many bytes, keys included."""
        topic = self.new(count)
        preload(self.bootstrap, topic, records, size, count)
        return topic

    def judged(self, topic: str, verdict: Verdict, count: int = PARTITIONS) -> list[str]:
        """What is wrong with a topic, as a read_committed reader of another client library sees it; then it goes."""
        for messages in committed(self.bootstrap, topic, count):
            parts: dict[int, tuple[list[bytes | None], list[bytes | None]]] = {}
            for message in messages:
                keys, values = parts.setdefault(message.partition() or 0, ([], []))
                keys.append(message.key())
                values.append(message.value())
            for partition, (keys, values) in parts.items():
                verdict.take(partition, keys, values)
        self.drop(topic)
        return verdict.wrong()

    def sizes(self, topic: str, count: int = PARTITIONS) -> tuple[int, set[int]]:
        """How many records are visible, and how long their values are."""
        found, lengths = 0, set[int]()
        for messages in committed(self.bootstrap, topic, count):
            found += len(messages)
            lengths |= {len(message.value() or b"") for message in messages}
        self.drop(topic)
        return found, lengths

    def end(self, topic: str, count: int, expected: int) -> int:
        """The sum of the partitions' ends; waits a little: a transaction's end is noted after its answer."""
        deadline = time.monotonic() + SETTLE_S
        reader = consumer(self.bootstrap, topic, {})
        try:
            while True:
                places = [TopicPartition(topic, number) for number in range(count)]
                found = sum(reader.get_watermark_offsets(it, timeout=SETTLE_S, cached=False)[1] for it in places)
                if found >= expected or time.monotonic() > deadline:
                    return found
                time.sleep(0.05)
        finally:
            reader.close()


def committed(bootstrap: str, topic: str, count: int = PARTITIONS) -> Iterator[list[Message]]:
    """Every visible record, many at a time."""
    await_end_markers(bootstrap, topic, count)
    reader = consumer(bootstrap, topic, {"enable.partition.eof": True})
    reader.assign([TopicPartition(topic, number, 0) for number in range(count)])
    ended, deadline = set[int](), time.monotonic() + READ_TIMEOUT_S
    try:
        while len(ended) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"topic {topic} could not be read to its end within {READ_TIMEOUT_S:.0f} s")
            messages = []
            for message in reader.consume(10_000, 1.0):
                error = message.error()
                if error is None:
                    messages.append(message)
                elif error.code() == EOF_CODE:
                    ended.add(message.partition() or 0)
                else:
                    raise KafkaException(error)
            if messages:
                yield messages
    finally:
        reader.close()


def await_end_markers(bootstrap: str, topic: str, count: int) -> None:
    """A transaction's end is answered before it is noted in every partition; until then these end before it."""
    levels = [consumer(bootstrap, topic, {"isolation.level": it}) for it in ("read_committed", "read_uncommitted")]
    deadline = time.monotonic() + SETTLE_S
    try:
        for place in [TopicPartition(topic, number) for number in range(count)]:
            while len({it.get_watermark_offsets(place, timeout=SETTLE_S, cached=False)[1] for it in levels}) > 1:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{topic}: a transaction is open in partition {place.partition}")
                time.sleep(0.01)
    finally:
        for it in levels:
            it.close()


def consumer(bootstrap: str, name: str, settings: dict[str, object]) -> Consumer:
    """A reader of committed records."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{name}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            **QUIET,
            "fetch.queue.backoff.ms": 10,  # its default lets records lie for up to a second
            **settings,
        }
    )


def preload(bootstrap: str, topic: str, count: int, size: int, places: int) -> None:
    """Through our own encoder, which is the quickest way there is here."""
    wire = Wire(Cluster(bootstrap))
    producer = IdempotentProducer(wire, "preload")
    producer.begin()
    sender = Sender(wire, producer.identity, None)
    for start in range(0, count, AT_ONCE):
        numbers = np.arange(start, min(count, start + AT_ONCE), dtype=np.int64)
        keys, values = column(keys_of(numbers)), column(values_of(numbers, size - KEY_BYTES))
        routes = partitions(keys, numbers, places)
        for batch in encode(
            Columns(key=keys, value=values),
            routes,
            numbers,
            compression=Compression.NONE,
            max_batch_bytes=1_000_000,
            timestamp_ms=time.time_ns() // 1_000_000,
        ):
            sender.send(Place(topic, batch.route), batch.payload, batch.count)
    sender.flush()
    wire.close()
