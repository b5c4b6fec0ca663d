"""Three guarantees under the same crashes: the first loses, the second duplicates, the third does neither."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.errors import ConfigurationError, HomeMismatch, SavepointOutdated, SourceNotReplayable, SpeculationEnabled
from onceward.pipeline.session import require_usable
from support.home import checkpoint_of
from support.judge import Kafka
from support.runs import crash, run


def crashing_run(
    spark: SparkSession, kafka: Kafka, name: str, home: Path, guarantee: str, crash_at: Callable[[str | None], None]
) -> tuple[int, int]:
    """Feed, crash before or after writing, restart; how many were lost and how many doubled."""
    source, target = kafka.topic(2), kafka.topic(2)

    def pipeline() -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
        return ow.Pipeline(name, home=home, source=events, guarantee=guarantee).to(
            ow.KafkaSink(kafka.bootstrap, topic=target), rows=lambda batch: batch.select("key", "value")
        )

    for number, point in enumerate(("begun", "written")):
        kafka.feed(source, ((f"k{i}", f"{number}-{i}") for i in range(100)))
        crash_at(point)
        with pytest.raises(Exception, match="Crash"):
            pipeline().start(trigger="once").wait(120)
        crash_at(None)
        pipeline().start(trigger="once").wait(120)
    seen = Counter(kafka.values(target))
    return 200 - len(seen), sum(count - 1 for count in seen.values())


def test_at_most_once_loses_at_least_once_doubles_exactly_once_does_neither(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, crash_at: Callable[[str | None], None]
) -> None:
    """A5: the same two crashes, one before and one after writing."""
    verdicts = {
        guarantee: crashing_run(spark, kafka, f"{name}-{guarantee}", tmp_path / guarantee, guarantee, crash_at)
        for guarantee in ("at-most-once", "at-least-once", "exactly-once")
    }
    assert verdicts == {"at-most-once": (100, 0), "at-least-once": (0, 100), "exactly-once": (0, 0)}


def test_sparks_own_sink_duplicates_after_the_same_crash(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    """A2: exactly-once inside the engine is not enough; the epoch is written, the commit log is not."""
    source, target = kafka.topic(2), kafka.topic(2)
    kafka.feed(source, ((f"k{i}", str(i)) for i in range(100)))

    def run() -> None:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).select("key", "value")
        writer = events.writeStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
        writer = writer.option("topic", target).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        writer.start().awaitTermination()

    run()
    (tmp_path / "commits" / ".0.crc").unlink()
    (tmp_path / "commits" / "0").unlink()  # what a kill between the last write and the commit log leaves behind
    run()
    assert len(kafka.values(target)) == 200


def test_the_naive_order_doubles_what_a_crash_falls_into(kafka: Kafka, name: str) -> None:
    """C5: output first, positions afterwards, in two steps: whoever dies in between writes it again."""
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", str(number)) for number in range(10)])

    def copy(*, dies: bool) -> None:
        settings = {"group.id": name, "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap, **settings})
        try:
            consumer.assign(consumer.committed([TopicPartition(source, 0)], timeout=30))
            read = consumer.consume(10, 10)
            kafka.feed(target, [(message.key(), message.value()) for message in read])
            if not dies:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    copy(dies=True)
    copy(dies=False)
    assert sorted(kafka.values(target)) == sorted([str(number) for number in range(10)] * 2)


def test_a_guarantee_cannot_change_afterwards(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[kafka.topic(1)]).select("key", "value")
    sink = ow.KafkaSink(kafka.bootstrap, topic=kafka.topic(1))
    ow.Pipeline(name, home=tmp_path, source=events, guarantee="at-least-once").to(sink).start(trigger="once").wait(60)
    with pytest.raises(HomeMismatch, match="at-least-once"):
        ow.Pipeline(name, home=tmp_path, source=events).to(sink).start()


def start(frame: DataFrame, kafka: Kafka, name: str, home: Path, **options: object) -> ow.Query:
    rows = frame.selectExpr("'v' as value")
    pipeline = ow.Pipeline(name, home=home, source=rows, **options)  # type: ignore[arg-type]
    return pipeline.to(ow.KafkaSink(kafka.bootstrap, topic=kafka.topic(1))).start(trigger="once")


def test_a_source_that_cannot_be_replayed_is_refused_and_the_message_says_which_half_is_missing(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """A3."""
    socket = spark.readStream.format("socket").option("host", "localhost").option("port", "9").load()
    with pytest.raises(SourceNotReplayable, match=r"'socket'.*first half.*ow\.read_kafka"):
        start(socket, kafka, name, tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_kafka_source_that_reads_uncommitted_or_skips_lost_data_is_refused(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """A3, bad input of the proof plan: a read_uncommitted source."""
    source = kafka.topic(1)
    plain = spark.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.bootstrap)
    plain = plain.option("subscribe", source).option("startingOffsets", "earliest")
    with pytest.raises(SourceNotReplayable, match="read_committed"):
        start(plain.load(), kafka, name, tmp_path / "home")
    lossy = plain.option("kafka.isolation.level", "read_committed").option("failOnDataLoss", "false")
    with pytest.raises(SourceNotReplayable, match="failOnDataLoss"):
        start(lossy.load(), kafka, name, tmp_path / "home")


def test_files_are_a_replayable_source_and_the_marker_rides_on_the_output_topic(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    target = kafka.topic(2)
    (tmp_path / "in").mkdir()

    def run() -> None:
        lines = spark.readStream.format("text").load(str(tmp_path / "in"))
        sink = ow.KafkaSink(kafka.bootstrap, topic=target)
        ow.Pipeline(name, home=tmp_path / "home", source=lines).to(sink).start(trigger="once").wait(60)

    (tmp_path / "in" / "a.txt").write_text("one\ntwo\n")
    run()
    (tmp_path / "in" / "b.txt").write_text("three\n")
    run()
    (checkpoint_of(tmp_path / "home") / "commits" / "1").unlink()
    run()
    assert sorted(kafka.values(target)) == ["one", "three", "two"]


def test_speculation_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trap 1: two copies of a task would write with the same sequence numbers."""
    conf = spark.sparkContext.getConf().set("spark.speculation", "true")
    monkeypatch.setattr(type(spark.sparkContext), "getConf", lambda _: conf)
    with pytest.raises(SpeculationEnabled, match=r"spark\.speculation=false"):
        require_usable(spark)


def test_a_broker_that_is_not_there_is_named(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onceward.kafka.wire.CONNECT_TIMEOUT_S", 1.0)
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[kafka.topic(1)]).select("value")
    pipeline = ow.Pipeline(name, home=tmp_path, source=events).to(ow.KafkaSink("127.0.0.1:1", topic="t"))
    with pytest.raises(ow.OncewardError, match=r"127\.0\.0\.1:1"):
        pipeline.start()


def test_a_transaction_timeout_over_the_brokers_maximum_is_named(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[kafka.topic(1)]).select("value")
    sink = ow.KafkaSink(kafka.bootstrap, topic=kafka.topic(1), transaction_timeout_ms=10**9)
    with pytest.raises(ConfigurationError, match=r"transaction_timeout_ms.*transaction\.max\.timeout\.ms"):
        ow.Pipeline(name, home=tmp_path, source=events).to(sink).start()


def test_a_pipeline_without_a_place_for_its_marker_is_refused(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """Files in, topics only from the rows: a restart could not know what is out."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("one")
    target = kafka.topic(1)
    lines = spark.readStream.format("text").load(str(tmp_path / "in"))
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=lines).to(
        ow.KafkaSink(kafka.bootstrap), rows=lambda batch: batch.selectExpr("value", f"'{target}' as topic")
    )
    with pytest.raises(ConfigurationError, match=r"KafkaSink\(topic=\.\.\.\)"):
        pipeline.start(trigger="once").wait(60)
    assert kafka.values(target) == []


def test_at_most_once_writes_nothing_twice_across_resets_and_restores(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, crash_at: Callable[[str | None], None]
) -> None:
    """A5, E8: what was begun may be visible: a reset goes on after it, and a restore of what came before is refused."""
    source, target = kafka.topic(1), kafka.topic(1)

    def pipeline() -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
        return ow.Pipeline(name, home=tmp_path / "home", source=events, guarantee="at-most-once").to(
            ow.KafkaSink(kafka.bootstrap, topic=target), rows=lambda batch: batch.select("key", "value")
        )

    kafka.feed(source, [(None, "a"), (None, "b")])
    place = run(pipeline()).savepoint()
    kafka.feed(source, [(None, "c")])
    crash_at("written")
    crash(pipeline())
    crash_at(None)
    with pytest.raises(SavepointOutdated, match=r"promises at-most-once, and has begun epochs up to 1 since"):
        pipeline().start(from_savepoint=place)
    pipeline().reset(from_group=True)
    kafka.feed(source, [(None, "d")])
    run(pipeline())
    assert kafka.values(target) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("of_spark", ["offsets", "metadata"])
def test_a_checkpoint_of_sparks_is_no_home(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, of_spark: str
) -> None:
    """K3: with it for a home, everything would be read from the beginning and written again."""
    kafka.feed(source := kafka.topic(1), [(None, "a")])
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    started = events.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "its"))
    started.trigger(availableNow=True).start().awaitTermination(60)
    if of_spark == "metadata":
        shutil.rmtree(tmp_path / "its" / "offsets")
    pipeline = ow.Pipeline(name, home=tmp_path / "its", source=events).to(ow.FileSink(tmp_path / "out"))
    with pytest.raises(HomeMismatch, match=r"is the checkpoint of a Spark query, not a home.*read_kafka\(starting="):
        pipeline.start(trigger="once")
    assert not (tmp_path / "its" / "pipeline.json").exists()
