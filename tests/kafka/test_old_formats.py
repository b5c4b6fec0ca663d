"""Segments from before Kafka 0.11, on a real broker: it serves them as they are, years after nobody writes them."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import onceward as ow
from onceward.cli.main import app
from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.walking import headers
from onceward.proof.simulation.reading import kept
from onceward.sinks.kafka.sink import KafkaSink
from support.judge import Kafka
from support.runs import run

AT_MS = 1_400_000_000_000
NONE, GZIP = 0, kept.GZIP


class Seen(NamedTuple):
    """As the command tells it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None


def written(partition: int) -> list[Seen]:
    """Partition 0 is of v0, which has no times, and partition 1 of v1; a tombstone and a null key among them."""
    times = [-1, AT_MS]
    values = [f"{number}" if number != 7 else None for number in range(40)]
    keys = [f"k{number % 3}" if number % 5 else None for number in range(40)]
    return [Seen(partition, at, times[partition], keys[at], values[at]) for at in range(40)]


def encoded(text: str | None) -> bytes | None:
    return text.encode() if text is not None else None


def segment(partition: int) -> bytes:
    """Messages one by one, and compressed in tens."""
    rows = [(encoded(it.key), encoded(it.value)) for it in written(partition)]
    codecs = (NONE, GZIP, GZIP, NONE)
    parts = [(at, rows[at : at + 10], codec) for at, codec in zip(range(0, 40, 10), codecs, strict=True)]
    return b"".join(kept.old(partition, at, some, codec=codec, at_ms=AT_MS) for at, some, codec in parts)


@pytest.fixture(scope="module")
def kafka(own: Any) -> Iterator[Kafka]:
    with closing(Kafka(own.broker.bootstrap, own.wire)) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def topic(own: Any, kafka: Kafka) -> str:
    """Two partitions, each with forty old messages and a record of today behind them."""
    name: str = own.topic(2, **{"retention.ms": "-1"})
    own.broker.stop()
    for partition in (0, 1):
        folder = own.broker.log_dir() / f"{name}-{partition}"
        for index in folder.glob("*index"):
            index.unlink()  # made again from the log, which the broker shall read through
        (folder / f"{0:020}.log").write_bytes(segment(partition))
    (own.broker.log_dir() / ".kafka_cleanshutdown").unlink()
    own.broker.start()
    for partition in (0, 1):
        kafka.producer.produce(name, key="new", value=f"{partition}", partition=partition)
    assert kafka.producer.flush(30) == 0
    assert kafka.wire.ends([name]) == {TopicPartition(name, it): 41 for it in (0, 1)}
    return name


def test_consume_shows_them_with_their_offsets_and_times(own: Any, topic: str) -> None:
    ended = CliRunner().invoke(app, ["kafka", "consume", topic, "--dir", str(own.broker.dir), "--json"])
    assert ended.exit_code == 0, ended.output
    lines = (json.loads(line) for line in ended.stdout.splitlines())
    told = sorted(Seen(**{name: it[name] for name in Seen._fields}) for it in lines)
    assert [it for it in told if it.offset < 40] == [*written(0), *written(1)]
    assert [(it.partition, it.key, it.value) for it in told if it.offset == 40] == [(0, "new", "0"), (1, "new", "1")]


def test_so_does_sparks_own_source(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    """What we tell is what Kafka's own client tells."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    table = spark.read.format("kafka").options(**options).load().where("offset < 40")
    rows = table.selectExpr("partition", "offset", "unix_millis(timestamp) as at_ms", "key", "value").collect()
    told = sorted(
        Seen(it.partition, it.offset, it.at_ms, it.key and it.key.decode(), it.value and it.value.decode())
        for it in rows
    )
    assert told == [*written(0), *written(1)]


def test_a_copy_leaves_them_to_spark(
    spark: SparkSession, kafka: Kafka, name: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E9, A1: all of them arrive."""
    tries: list[int] = []
    plain = KafkaSink._copied

    def watched(sink: KafkaSink, rows: Any, context: Any) -> Any:
        tries.append(context.attempt)
        return plain(sink, rows, context)

    monkeypatch.setattr(KafkaSink, "_copied", watched)
    target = kafka.topic(2)
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[topic]).select("key", "value", "partition")
    sink = ow.KafkaSink(kafka.bootstrap, topic=target, partitioning="preserve")
    run(ow.Pipeline(name, home=tmp_path / "home", source=events).to(sink))
    found = [(it.partition(), it.key(), it.value()) for it in kafka.read(target)]
    wanted = [(it.partition, encoded(it.key), encoded(it.value)) for it in written(0)]
    wanted += [(0, b"new", b"0")]
    assert found == wanted + [(1, key, value if key != b"new" else b"1") for _, key, value in wanted]
    assert tries == [1, 2]


def test_who_asks_whose_batches_they_are_is_told_that_nobody_can_say(kafka: Kafka, topic: str) -> None:
    """D5: as when a snapshot is compared with its topics."""
    for partition in (0, 1):
        with pytest.raises(BrokerRefused, match=f"{topic}-{partition} at 0: records of format v{partition}"):
            list(headers(kafka.wire, TopicPartition(topic, partition), 0, 41))
