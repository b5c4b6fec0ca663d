"""What the encoder writes, judged by a broker, by librdkafka and by Kafka's log tool."""

import re
import subprocess
import time
import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.net.compat import KafkaNetClient
from kafka.protocol.producer import ProduceRequest

from onceward.jars import broker_jars, java_command
from onceward.kafka.records import BatchHeader, Columns, Compression, EncodedBatch, encode, stamp

NOW = 1_700_000_000_000
CAP = 10 << 20
TIGHT_CAP = 2000
NOT_YET_LED = {3, 5, 6}  # a topic that was just made
MESSAGE_TOO_LARGE = 10
WAIT_S = 30
HEADERS = pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()}))

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


def rows() -> list[Row]:
    random = Random(12)
    letters = bytes(random.choices(b"abcdefgh", k=400_000))
    entries = [("trace", b"1"), ("trace", None), ("Grüße", b"")]
    edges: list[Row] = [
        (None, None, [], NOW),
        (b"", b"", [("only", b"")], NOW - 5000),
        (b"k", None, entries, NOW + 70_000),
        (None, b"v" * 70_000, [], 0),
        (b"random", random.randbytes(5 << 20), [], NOW),
        (b"letters", letters * 4, entries, NOW),
    ]
    many: list[Row] = []
    for number in range(5000):
        start = random.randrange(300_000)
        few = entries[: random.randrange(4)]
        many.append((b"%d" % number, letters[start : start + random.randrange(500)], few, NOW + number % 77))
    return edges + many


def columns(data: list[Row]) -> Columns:
    key, value, headers, timestamp = zip(*data, strict=True)
    return Columns(
        key=pa.array(key, pa.binary()),
        value=pa.array(value, pa.binary()),
        headers=pa.array([[{"key": k, "value": v} for k, v in row] for row in headers], HEADERS),
        timestamp=pa.array(timestamp, pa.int64()),
    )


def encoded(data: Columns, partition: int, count: int, codec: Compression, cap: int) -> Iterator[EncodedBatch]:
    routes, hashes = np.full(count, partition, np.int32), np.arange(count)
    return encode(data, routes, hashes, compression=codec, max_batch_bytes=cap, timestamp_ms=NOW)


def unowned(batch: EncodedBatch) -> bytes:
    return stamp(batch.payload, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False)


class Topic:
    """One partition per codec, written with raw Produce requests."""

    def __init__(self, broker: Any, cap: int) -> None:
        self.name = f"records-{uuid.uuid4().hex[:8]}"
        self.bootstrap = broker.bootstrap
        settings = {"max.message.bytes": str(cap), "retention.ms": "-1"}
        topic = NewTopic(self.name, num_partitions=len(Compression), config=settings)
        admin = AdminClient({"bootstrap.servers": self.bootstrap})  # a name of its own: it must outlive the call
        admin.create_topics([topic])[self.name].result(WAIT_S)
        self.client = KafkaNetClient(bootstrap_servers=self.bootstrap)
        self.client.check_version()

    def produce(self, partition: int, records: bytes) -> int:
        data = ProduceRequest.TopicProduceData
        body = data(name=self.name, partition_data=[data.PartitionProduceData(index=partition, records=records)])
        request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=10_000, topic_data=[body], max_version=12)
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = self.client.send_and_receive(self.client.least_loaded_node(), request)
            code: int = answer.responses[0].partition_responses[0].error_code
            if code not in NOT_YET_LED or time.monotonic() > deadline:
                return code
            time.sleep(0.02)

    def read(self, partition: int, count: int) -> list[Row]:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "none", "enable.auto.commit": False}
        reader = Consumer({**settings, "fetch.queue.backoff.ms": 10, "check.crcs": True})
        seen: list[Row] = []
        deadline = time.monotonic() + WAIT_S
        try:
            reader.assign([TopicPartition(self.name, partition, 0)])
            while len(seen) < count and time.monotonic() < deadline:
                for message in reader.consume(1000, 0.5):
                    assert not message.error(), message.error()
                    headers: list[Any] = list(message.headers() or [])
                    seen.append((message.key(), message.value(), headers, message.timestamp()[1]))
        finally:
            reader.close()
        return seen


@pytest.fixture(scope="module")
def topic(broker: Any) -> Iterator[Topic]:
    made = Topic(broker, CAP)
    data = rows()
    for partition, codec in enumerate(Compression):
        for batch in encoded(columns(data), partition, len(data), codec, CAP):
            assert made.produce(partition, unowned(batch)) == 0
    yield made
    made.client.close()


@pytest.mark.parametrize("codec", list(Compression))
def test_librdkafka_reads_what_was_written(topic: Topic, codec: Compression) -> None:
    expected = rows()
    seen = topic.read(list(Compression).index(codec), len(expected))
    assert len(seen) == len(expected)
    assert all(ours == theirs for ours, theirs in zip(expected, seen, strict=True))


def test_kafkas_own_log_tool_finds_every_record_valid(topic: Topic, broker: Any) -> None:
    folders = [broker.log_dir() / f"{topic.name}-{partition}" for partition in range(len(Compression))]
    logs = [log for folder in folders for log in sorted(folder.glob("*.log"))]
    command = [
        str(java_command()),
        "-cp",
        ":".join(map(str, broker_jars())),
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--files",
        ",".join(map(str, logs)),
    ]
    said = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    lines = said.stdout.splitlines()
    batches = [line for line in lines if line.startswith("baseOffset")]
    assert all("isvalid: true" in line and "magic: 2" in line for line in batches)
    assert {re.search(r"compresscodec: (\w+)", line)[1] for line in batches} == set(Compression)
    assert sum(line.startswith("| offset") for line in lines) == len(rows()) * len(Compression)
    complaints = re.compile("exception|corrupt|mismatch|invalid", re.IGNORECASE)
    assert not complaints.search(said.stdout + said.stderr)


def test_the_broker_draws_the_line_where_we_do(broker: Any) -> None:
    """A batch of exactly max.message.bytes is taken, one byte more is not: both count the same bytes."""
    topic = Topic(broker, TIGHT_CAP)

    def one(size: int) -> bytes:
        data = Columns(value=pa.array([bytes(size)], pa.binary()))
        (batch,) = encoded(data, 0, 1, Compression.NONE, TIGHT_CAP + 1)
        return unowned(batch)

    fits = next(size for size in range(TIGHT_CAP) if len(one(size)) == TIGHT_CAP)
    assert topic.produce(0, one(fits)) == 0
    assert len(one(fits + 1)) == TIGHT_CAP + 1
    assert topic.produce(0, one(fits + 1)) == MESSAGE_TOO_LARGE
    topic.client.close()


def test_a_linked_lz4_frame_is_why_ours_is_built_by_hand(topic: Topic) -> None:
    """Arrow's own frame of more than one block is refused by the broker. If this fails, the frame may go."""
    data = columns([(b"k", bytes(Random(3).choices(b"ab", k=300_000)), [], NOW)])
    (plain,) = encoded(data, 0, 1, Compression.NONE, CAP)
    header = BatchHeader.of(plain.payload)
    frame = pa.Codec("lz4").compress(plain.payload[61:], asbytes=True)
    linked = header._replace(length=49 + len(frame), attributes=Compression.LZ4.attribute).packed() + frame
    sent = stamp(linked, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False)
    assert topic.produce(0, sent) != 0
