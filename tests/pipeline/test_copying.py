"""A query that only takes Kafka's columns over: its records are read where they are written (docs/decisions/0023)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import TopicPartition
from onceward.errors import InputLost
from onceward.kafka.ranges import Range
from onceward.kafka.wire import Cluster
from onceward.pipeline.ahead import shaped_ahead
from onceward.sinks.kafka.copying import Copy, Origin
from onceward.sinks.kafka.sink import KafkaSink
from onceward.sinks.rows import ASSUMED_ROW_BYTES, Size
from support.judge import Kafka
from support.runs import crash, run

WAYS = pytest.mark.parametrize("small", [10 << 20, 0], ids=["short-way", "over-tasks"])
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Build = Callable[..., ow.Pipeline]


@pytest.fixture
def topics(kafka: Kafka) -> tuple[str, str]:
    return kafka.topic(3), kafka.topic(3)


@pytest.fixture
def build(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]) -> Build:
    """A copy, or the same query in a form that Spark computes."""

    def make(*, copy: bool = True, small: int = 10 << 20, **options: object) -> ow.Pipeline:
        columns = ["key", "value", *(["partition"] if options.get("partitioning") == "preserve" else [])]
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]]).select(*columns)
        source = events if copy else events.where("length(topic) > 0 or true").selectExpr("*")
        sink = ow.KafkaSink(kafka.bootstrap, topic=topics[1], small_epoch_bytes=small, **options)  # type: ignore[arg-type]
        return ow.Pipeline(name, home=tmp_path / "home", source=source).to(sink)

    return make


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each epoch that was written was copied."""
    seen: list[bool] = []
    plain = KafkaSink._copied

    def watched(sink: KafkaSink, *rest: object) -> object:
        outcome = plain(sink, *rest)  # type: ignore[arg-type]
        seen.append(outcome is not None)
        return outcome

    monkeypatch.setattr(KafkaSink, "_copied", watched)
    return seen


@WAYS
def test_records_arrive_as_they_were(
    kafka: Kafka, topics: tuple[str, str], build: Build, copied: list[bool], small: int
) -> None:
    """A1: keys, tombstones, null keys, empty ones; more than one epoch; every row counted, by Spark too."""
    records = [(f"k{i % 7}" if i % 5 else None, f"v{i}" * (i % 40) if i % 11 else None) for i in range(500)]
    for half in (records[:250], records[250:]):
        kafka.feed(topics[0], half)
        query = run(build(small=small))
        assert (query.rows_read, query.rows_written["kafka"]) == (250, 250)
        assert sum(it["numInputRows"] for it in query.spark_query.recentProgress) == 250
    found = [(message.key(), message.value()) for message in kafka.read(topics[1])]
    wanted = [(key and key.encode(), value if value is None else value.encode()) for key, value in records]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert copied == [True, True]


def test_records_of_a_partition_stay_in_order_and_in_it(
    kafka: Kafka, topics: tuple[str, str], build: Build, copied: list[bool]
) -> None:
    """C1: each task writes one partition and nobody else does."""
    kafka.feed(topics[0], ((f"k{i}", f"{i:05}") for i in range(3000)))
    run(build(small=0, partitioning="preserve"))
    assert [(it.partition(), it.value()) for it in kafka.read(topics[1])] == [
        (it.partition(), it.value()) for it in kafka.read(topics[0])
    ]
    assert copied == [True]


@WAYS
def test_what_its_source_has_not_committed_is_not_copied(
    kafka: Kafka, topics: tuple[str, str], build: Build, copied: list[bool], small: int
) -> None:
    """A6: aborted transactions in the source, before and behind a committed one."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": topics[0], "log_level": 0})
    producer.init_transactions(30)
    for text, commits in (("aborted", False), ("committed", True), ("aborted too", False)):
        producer.begin_transaction()
        for number in range(20):
            producer.produce(topics[0], key=f"k{number}", value=text)
        (producer.commit_transaction if commits else producer.abort_transaction)(30)
    query = run(build(small=small))
    assert kafka.values(topics[1]) == ["committed"] * 20
    assert query.rows_read == 20
    assert copied == [True]


@pytest.mark.parametrize("partitioning", ["key", "preserve"])
@pytest.mark.parametrize("first", [True, False], ids=["copied-first", "computed-first"])
def test_a_replay_is_the_same_either_way(
    kafka: Kafka,
    topics: tuple[str, str],
    build: Build,
    crash_at: Callable[[str | None], None],
    first: bool,
    partitioning: str,
) -> None:
    """G4: the digest of a copy is the one that Spark computes, nulls and empty values included."""
    records = [(f"k{i}" if i % 3 else None, "x" * i if i % 4 else None) for i in range(120)]
    kafka.feed(topics[0], records)
    crash_at("decided")
    crash(build(copy=first, small=0, partitioning=partitioning))
    crash_at(None)
    assert run(build(copy=not first, small=0, partitioning=partitioning)).epochs_committed == 0
    assert len(kafka.read(topics[1])) == len(records)


@WAYS
def test_a_copy_that_fails_is_redone_by_spark(
    kafka: Kafka, topics: tuple[str, str], build: Build, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """B4: in the middle of the epoch, with records in the transaction."""
    kafka.feed(topics[0], ((f"k{i}", f"v{i}") for i in range(100)))
    plain = Origin.copy

    def with_one_that_is_not_there(origin: Origin, context: EpochContext) -> Copy | None:
        copy = plain(origin, context)
        assert copy is not None
        return replace(copy, ranges=(*copy.ranges, Range(TopicPartition(topics[0], 99), 0, 5)))

    monkeypatch.setattr(Origin, "copy", with_one_that_is_not_there)
    query = run(build(small=small))
    assert sorted(kafka.values(topics[1])) == sorted(f"v{i}" for i in range(100))
    assert query.rows_read == 100


def test_records_that_kafka_deletes_meanwhile_are_told_and_nothing_is_visible(
    kafka: Kafka, topics: tuple[str, str], build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A1: deleted between the epoch's plan and its reading."""
    kafka.feed(topics[0], ((f"k{i}", f"v{i}") for i in range(300)))
    plain = Origin.copy

    def deleting(origin: Origin, context: EpochContext) -> Copy | None:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        (gone,) = admin.delete_records([Place(topics[0], 0, 10)]).values()
        gone.result(30)
        return plain(origin, context)

    monkeypatch.setattr(Origin, "copy", deleting)
    with pytest.raises(InputLost):
        run(build())
    assert kafka.read(topics[1]) == []


def test_an_epoch_that_is_larger_than_it_seemed_goes_over_tasks(
    kafka: Kafka, topics: tuple[str, str], build: Build, copied: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver holds only so much, and has sent nothing by then."""
    read_here: list[object] = []
    plain = Size.read_here

    def watched(size: Size, context: EpochContext, read: Callable[[], object]) -> object:
        read_here.append(plain(size, context, read))
        return read_here[-1]

    monkeypatch.setattr(Size, "read_here", watched)
    kafka.feed(topics[0], ((f"k{i}", "x" * 2000) for i in range(100)))
    query = run(build(small=100 * ASSUMED_ROW_BYTES))
    assert len(kafka.read(topics[1])) == 100
    assert (query.rows_read, copied, read_here) == (100, [True], [None])


COPIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "key and value": lambda events: events.select("key", "value"),
    "as strings": lambda events: events.selectExpr("cast(key as string)", "cast(value as string) as VALUE"),
    "in two steps": lambda events: events.select("value", "key", "topic").alias("e").selectExpr("e.key", "e.value"),
}
COMPUTED: dict[str, Callable[[DataFrame], DataFrame]] = {
    "no key": lambda events: events.select("value"),
    "another column's": lambda events: events.selectExpr("value as key", "key as value"),
    "one column twice": lambda events: events.selectExpr("value as key", "value"),
    "an expression": lambda events: events.selectExpr("key", "upper(cast(value as string)) as value"),
    "a filter": lambda events: events.select("key", "value").where("value is not null"),
    "a time": lambda events: events.select("key", "value", "timestamp"),
    "a topic": lambda events: events.selectExpr("key", "value", "'elsewhere' as topic"),
    "headers": lambda events: events.select("key", "value", "headers"),
    "a number in its place": lambda events: events.selectExpr("key", "value", "0 as partition"),
}


@pytest.mark.parametrize("query", COPIES.values(), ids=COPIES)
def test_a_copy(spark: SparkSession, kafka: Kafka, query: Callable[[DataFrame], DataFrame]) -> None:
    assert origin_of(query(ow.read_kafka(spark, kafka.bootstrap, topics=["t"])), kafka) == Cluster(kafka.bootstrap)


@pytest.mark.parametrize("query", COMPUTED.values(), ids=COMPUTED)
def test_more_than_a_copy(spark: SparkSession, kafka: Kafka, query: Callable[[DataFrame], DataFrame]) -> None:
    assert origin_of(query(ow.read_kafka(spark, kafka.bootstrap, topics=["t"])), kafka) is None


OTHERWISE = {
    "settings of the client's": {"kafka.max.partition.fetch.bytes": "1000"},
    "uncommitted records": {"kafka.isolation.level": "read_uncommitted"},
    "lost data passed over": {"failOnDataLoss": "false"},
}


@pytest.mark.parametrize("options", OTHERWISE.values(), ids=OTHERWISE)
def test_who_reads_in_a_way_of_their_own_reads_through_spark(
    spark: SparkSession, kafka: Kafka, options: dict[str, str]
) -> None:
    events = ow.read_kafka(spark, kafka.bootstrap, topics=["t"], options=options)
    assert origin_of(events.select("key", "value"), kafka) is None


def test_a_source_with_credentials_is_read_with_the_sinks_if_they_are_the_same(
    spark: SparkSession, kafka: Kafka
) -> None:
    """J4: no credentials are taken from a plan."""
    mine = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "a"}
    events = ow.read_kafka(spark, kafka.bootstrap, topics=["t"], settings={**mine, "sasl.password": "b"})
    rows = events.select("key", "value")
    assert origin_of(rows, kafka, {**mine, "sasl.password": "b"}) == Cluster(
        kafka.bootstrap, {**mine, "sasl.password": "b"}
    )
    assert origin_of(rows, kafka, {**mine, "sasl.password": "another"}) is None
    assert origin_of(rows, kafka) is None


def test_ranges_that_do_not_add_up_are_left_to_spark() -> None:
    """An entry of the checkpoint that is missing, or positions that went back: Spark reads, or says what is wrong."""
    origin = Origin(Cluster("b:1"), False, lambda _: {T0: 5}, lambda _: None)
    fine = origin.copy(EpochContext(epoch=1, positions={T0: 9, T1: 3}, input_rows=7))
    assert fine is not None
    assert fine.ranges == (Range(T0, 5, 9), Range(T1, 0, 3))
    assert origin.copy(EpochContext(epoch=1, positions={T0: 9, T1: 3}, input_rows=None)) is None
    assert origin.copy(EpochContext(epoch=1, positions={T0: 9, T1: 3}, input_rows=12)) is None
    assert origin.copy(EpochContext(epoch=1, positions={T0: 4}, input_rows=-1)) is None


def origin_of(source: DataFrame, kafka: Kafka, settings: dict[str, str] | None = None) -> Cluster | None:
    sink = ow.KafkaSink(kafka.bootstrap, topic="t", settings=settings)
    ahead = shaped_ahead(source, {"kafka": sink}, {"kafka"})
    assert ahead is not None
    return ahead.copies
