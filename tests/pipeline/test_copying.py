"""A query that only takes Kafka's columns over: its records are read where they are written (docs/decisions/0023)."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import TopicPartition
from onceward.errors import InputLost, UserCodeFailed
from onceward.kafka.ranges import Range
from onceward.kafka.wire import Cluster
from onceward.pipeline.ahead import shaped_ahead
from onceward.sinks.kafka.copying import MAY_FAIL, Copy, Origin
from onceward.sinks.kafka.sink import KafkaSink
from onceward.sinks.rows import ASSUMED_ROW_BYTES, Size
from support.judge import Kafka
from support.runs import crash, run

WAYS = pytest.mark.parametrize("small", [10 << 20, 0], ids=["short-way", "over-tasks"])
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


def vectorised(decorator: Any, function: Callable[[Any], Any], gives: str) -> Callable[[Column], Column]:
    """PySpark's types know no function without hints."""
    made: Callable[[Column], Column] = decorator(function, gives)
    return made


FUNCTIONS: dict[str, Callable[[Column], Column]] = {
    "plain": lambda value: F.udf(lambda it: it and it.upper(), "string")(value.cast("string")),
    "pandas": lambda value: vectorised(F.pandas_udf, lambda it: it.str.upper(), "string")(value.cast("string")),
    "arrow": lambda value: vectorised(F.arrow_udf, pc.utf8_upper, "string")(value.cast("string")),
    "bytes": lambda value: F.udf(lambda it: it and it.upper(), "binary")(value),  # noqa: PLW0108 - a session is needed
    "arrow bytes": lambda value: vectorised(F.arrow_udf, lambda it: it, "binary")(value),  # noqa: PLW0108 - the same
}
APPLIED = pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)


@pytest.fixture
def applying(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]) -> Build:
    """A pipeline whose query calls a function; copied, or computed by Spark."""

    def make(function: Callable[[Column], Column], *, copy: bool = True) -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]])
        rows = events.select("key", function(F.col("value")).alias("value"))
        sink = ow.KafkaSink(kafka.bootstrap, topic=topics[1], small_epoch_bytes=0)
        source = rows if copy else rows.where("true or length(key) > 0 or key is null").selectExpr("*")
        return ow.Pipeline(name, home=tmp_path / "home", source=source).to(sink)

    return make


@APPLIED
@pytest.mark.parametrize("first", [True, False], ids=["copied-first", "computed-first"])
def test_a_function_gives_what_it_gives_in_spark(
    kafka: Kafka,
    topics: tuple[str, str],
    applying: Build,
    crash_at: Callable[[str | None], None],
    copied: list[bool],
    function: Callable[[Column], Column],
    first: bool,
) -> None:
    """G4: written one way and replayed the other, nulls, empty texts and letters of more than one byte included."""
    texts = [None if it % 7 == 0 else "äa€" * (it % 50) for it in range(200)]
    kafka.feed(topics[0], ((f"k{it}" if it % 5 else None, text) for it, text in enumerate(texts)))
    crash_at("decided")
    crash(applying(function, copy=first))
    crash_at(None)
    assert run(applying(function, copy=not first)).epochs_committed == 0
    assert len(kafka.read(topics[1])) == 200
    assert copied == [first]


STRANGE: dict[str, tuple[Callable[[Column], Column], bytes]] = {
    "a number for a text": (lambda value: F.udf(len, "string")(value), b"4"),  # noqa: PLW0108 - the same
    "bytes for a text": (lambda value: F.udf(lambda it: it[2:], "string")(value), b"b'ab'"),  # noqa: PLW0108 - the same
}


@pytest.mark.parametrize(("function", "wanted"), STRANGE.values(), ids=STRANGE)
def test_what_only_spark_can_tell_is_left_to_spark(
    kafka: Kafka,
    topics: tuple[str, str],
    applying: Build,
    function: Callable[[Column], Column],
    wanted: bytes,
) -> None:
    """The epoch is redone, and nothing of the first try is visible."""
    kafka.feed(topics[0], [("k", b"\xff\xfeab")])
    run(applying(function))
    assert [it.value() for it in kafka.read(topics[1])] == [wanted]


def test_copies_that_fail_epoch_after_epoch_are_given_up(
    kafka: Kafka, topics: tuple[str, str], applying: Build
) -> None:
    function = STRANGE["a number for a text"][0]
    pipeline = applying(function)
    for _ in range(MAY_FAIL + 2):
        kafka.feed(topics[0], [("k", "four")])
        run(pipeline)
    assert kafka.values(topics[1]) == ["4"] * (MAY_FAIL + 2)
    (sink,) = pipeline.sinks.values()
    assert sink._copies.failed == MAY_FAIL  # type: ignore[attr-defined]


def test_a_failing_function_is_told_by_its_own_exception(
    kafka: Kafka, topics: tuple[str, str], applying: Build
) -> None:
    """I3."""

    def picky(value):  # type: ignore[no-untyped-def]
        if value == "seven":
            raise ValueError("no sevens here")
        return value

    kafka.feed(topics[0], [("k", "six"), ("k", "seven")])
    with pytest.raises(UserCodeFailed, match="no sevens here"):
        run(applying(lambda value: F.udf(picky, "string")(value.cast("string"))))
    assert kafka.read(topics[1]) == []


def test_what_a_function_counts_is_counted(
    spark: SparkSession, kafka: Kafka, topics: tuple[str, str], applying: Build
) -> None:
    """Spark's accumulators, epoch after epoch in the same worker."""
    seen = spark.sparkContext.accumulator(0)

    def counting(value):  # type: ignore[no-untyped-def]
        seen.add(1)
        return value

    pipeline = applying(lambda value: F.udf(counting, "string")(value.cast("string")))
    for total in (50, 100):
        kafka.feed(topics[0], ((f"k{it}", "v") for it in range(50)))
        run(pipeline)
        assert seen.value == total


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
    "a function of another column": lambda events: events.select(
        "key", F.udf(lambda it: it, "string")("topic").alias("value")
    ),
    "a function of the key": lambda events: events.select(F.udf(lambda it: it, "binary")("key").alias("key"), "value"),
    "two functions": lambda events: events.select(
        "key", F.udf(len, "string")(F.udf(len, "string")("value")).alias("value")
    ),
    "a function of two": lambda events: events.select(
        "key", F.udf(lambda one, other: one or other, "binary")("key", "value").alias("value")
    ),
    "a function that is not deterministic": lambda events: events.select(
        "key", F.udf(len, "string").asNondeterministic()("value").alias("value")
    ),
    "a function that gives a number": lambda events: events.select(
        "key", F.udf(len, "int")("value").cast("string").alias("value")
    ),
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
    "more tasks than partitions": {"minPartitions": "7"},
    "records of a task bounded": {"maxRecordsPerPartition": "1000"},
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


def origin_of(source: DataFrame, kafka: Kafka, settings: dict[str, str] | None = None) -> Cluster | None:
    sink = ow.KafkaSink(kafka.bootstrap, topic="t", settings=settings)
    ahead = shaped_ahead(source, {"kafka": sink}, {"kafka"})
    assert ahead is not None
    return ahead.copied.cluster if ahead.copied is not None else None


@pytest.mark.parametrize("point", ["begun", "written", "marked", "decided", "recorded"])
def test_a_driver_that_dies_while_it_copies_loses_and_repeats_nothing(
    kafka: Kafka, topics: tuple[str, str], build: Build, crash_at: Callable[[str | None], None], point: str
) -> None:
    """A1."""
    kafka.feed(topics[0], ((f"k{it}", f"v{it}") for it in range(60)))
    crash_at(point)
    crash(build())
    crash_at(None)
    kafka.feed(topics[0], [("k", "more")])
    run(build())
    assert sorted(kafka.values(topics[1])) == sorted([*(f"v{it}" for it in range(60)), "more"])
