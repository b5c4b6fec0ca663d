"""A lone Kafka sink without `rows=`: its rows are shaped in the query, once, and no batch is a query of its own."""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.functions import udf

import onceward as ow
from onceward.errors import InvalidRows, UserCodeFailed
from onceward.pipeline.ahead import shaped_ahead
from onceward.sinks.kafka import KafkaSink
from onceward.sinks.kafka.rows import ShapedBatch
from support.judge import Kafka
from support.runs import crash, run

WAYS = pytest.mark.parametrize("small", [10 << 20, 0], ids=["short-way", "over-tasks"])
Build = Callable[..., ow.Pipeline]


@lru_cache
def upper() -> Callable[..., Column]:
    """Made when a session is there."""
    return udf(lambda value: bytes(value).decode().upper(), "string")


@pytest.fixture
def topics(kafka: Kafka) -> tuple[str, str]:
    return kafka.topic(3), kafka.topic(3)


@pytest.fixture
def build(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]) -> Build:
    """Ahead, or with rows that say the same for each batch."""

    def make(*, ahead: bool = True, small: int = 10 << 20) -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]]).select("key", "value", "headers")
        sink = ow.KafkaSink(kafka.bootstrap, topic=topics[1], small_epoch_bytes=small)
        rows = None if ahead else lambda batch: batch.select("*")
        return ow.Pipeline(name, home=tmp_path / "home", source=events).to(sink, rows=rows)

    return make


@pytest.fixture
def shaped(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each batch came as the sink takes it."""
    seen: list[bool] = []
    plain = KafkaSink.write

    def watched(sink: KafkaSink, context: object, rows: DataFrame | ShapedBatch) -> object:
        seen.append(isinstance(rows, ShapedBatch))
        return plain(sink, context, rows)  # type: ignore[arg-type]

    monkeypatch.setattr(KafkaSink, "write", watched)
    return seen


PLAIN: dict[str, Callable[[DataFrame], DataFrame]] = {
    "columns": lambda events: events.select("key", "value"),
    "filter": lambda events: events.where("value is not null").select("value"),
    "python function": lambda events: events.select(upper()("value").alias("value")),
}
NOT_PLAIN: dict[str, Callable[[DataFrame], DataFrame]] = {
    "more rows than records": lambda events: events.selectExpr("explode(split(value, ',')) as value"),
    "state": lambda events: events.select("value").dropDuplicates(["value"]),
    "two sources": lambda events: events.select("value").union(events.select("key")),
    "Python over batches": lambda events: events.select("value").mapInArrow(lambda batches: batches, "value binary"),
}


@pytest.mark.parametrize("query", PLAIN.values(), ids=PLAIN)
def test_a_plain_map_of_records_is_shaped_ahead(
    spark: SparkSession, kafka: Kafka, query: Callable[[DataFrame], DataFrame]
) -> None:
    source = query(ow.read_kafka(spark, kafka.bootstrap, topics=["t"]))
    sinks = {"kafka": ow.KafkaSink(kafka.bootstrap, topic="t")}
    assert shaped_ahead(source, sinks, {"kafka"}) is not None
    assert shaped_ahead(source, sinks, set()) is None, "it has rows= of its own"
    more = {**sinks, "files": ow.FileSink("/nowhere")}
    assert shaped_ahead(source, more, {"kafka", "files"}) is None


@pytest.mark.parametrize("query", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_a_query_whose_rows_the_records_do_not_bound_is_not(
    spark: SparkSession, kafka: Kafka, query: Callable[[DataFrame], DataFrame]
) -> None:
    source = query(ow.read_kafka(spark, kafka.bootstrap, topics=["t"]))
    assert shaped_ahead(source, {"kafka": ow.KafkaSink(kafka.bootstrap, topic="t")}, {"kafka"}) is None


def test_a_source_that_counts_no_records_is_not(spark: SparkSession, kafka: Kafka) -> None:
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    sinks = {"kafka": ow.KafkaSink(kafka.bootstrap, topic="t")}
    assert shaped_ahead(source.selectExpr("cast(value as string) as value"), sinks, {"kafka"}) is None


@WAYS
def test_records_arrive_as_they_were(
    kafka: Kafka, topics: tuple[str, str], build: Build, shaped: list[bool], small: int
) -> None:
    """A1: keys, tombstones, null keys; more than one epoch; every row counted."""
    records = [(f"k{i % 7}" if i % 5 else None, f"v{i}" if i % 11 else None) for i in range(500)]
    for half in (records[:250], records[250:]):
        kafka.feed(topics[0], half)
        query = run(build(small=small))
        assert (query.rows_read, query.rows_written["kafka"]) == (250, 250)
    found = [(message.key(), message.value()) for message in kafka.read(topics[1])]
    wanted = [(key and key.encode(), value and value.encode()) for key, value in records]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert shaped == [True, True]


@pytest.mark.parametrize("first", [True, False], ids=["then-each-batch", "then-ahead"])
def test_a_replay_is_the_same_either_way(
    kafka: Kafka,
    topics: tuple[str, str],
    build: Build,
    crash_at: Callable[[str | None], None],
    shaped: list[bool],
    first: bool,
) -> None:
    """G4: what an epoch wrote in one way has the same digest in the other."""
    kafka.feed(topics[0], ((f"k{i}", f"v{i}") for i in range(50)))
    crash_at("decided")
    crash(build(ahead=first))
    crash_at(None)
    assert run(build(ahead=not first)).epochs_committed == 0
    kafka.feed(topics[0], [("k", "more")])
    run(build(ahead=not first))
    assert sorted(kafka.values(topics[1])) == sorted([*(f"v{i}" for i in range(50)), "more"])
    assert shaped == [first, not first]


@WAYS
def test_a_try_that_failed_is_redone_with_the_same_rows(
    kafka: Kafka, topics: tuple[str, str], build: Build, monkeypatch: pytest.MonkeyPatch, small: int
) -> None:
    """B4: the second try goes over tasks, from the same batch."""
    kafka.feed(topics[0], ((f"k{i}", f"v{i}") for i in range(50)))
    plain, tries = KafkaSink.pre_commit, []

    def failing(sink: KafkaSink, context: object, outcome: object) -> object:
        tries.append(context)
        if len(tries) == 1:
            raise RuntimeError("the first try fails")
        return plain(sink, context, outcome)  # type: ignore[arg-type]

    monkeypatch.setattr(KafkaSink, "pre_commit", failing)
    run(build(small=small))
    assert sorted(kafka.values(topics[1])) == sorted(f"v{i}" for i in range(50))


def test_what_the_sink_cannot_take_is_told_before_anything_is_taken_over(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]
) -> None:
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]])
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events.selectExpr("key", "value", "1 as extra"))
    with pytest.raises(InvalidRows, match="extra"):
        pipeline.to(ow.KafkaSink(kafka.bootstrap, topic=topics[1])).start(trigger="once")
    assert not (tmp_path / "home").exists()


def test_a_failing_function_is_told_by_its_own_exception(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]
) -> None:
    """I3: the function stands in the query."""

    @udf("string")
    def picky(value):  # type: ignore[no-untyped-def]
        if value == b"seven":
            raise ValueError("no sevens here")
        return value.decode()

    kafka.feed(topics[0], [("k", "six"), ("k", "seven")])
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]]).select(picky("value").alias("value"))
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events)
    with pytest.raises(UserCodeFailed, match="no sevens here"):
        run(pipeline.to(ow.KafkaSink(kafka.bootstrap, topic=topics[1])))
    assert kafka.values(topics[1]) == []
