"""However many sinks an epoch has, its rows are computed once: users' functions are called once for each row."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.pipeline.batch import kept
from onceward.servers.postgres import PostgresServer
from onceward.sinks.delta import DeltaSink
from onceward.sinks.postgres import PostgresSink
from support.judge import Kafka
from support.postgres import Database
from support.runs import run

ROWS: Final = 30
Counted = Any  # an accumulator: PySpark's class has no type parameters
Events = tuple[str, DataFrame]  # a topic, and its records


@pytest.fixture
def calls(spark: SparkSession) -> Counted:
    return spark.sparkContext.accumulator(0)


@pytest.fixture
def events(spark: SparkSession, kafka: Kafka) -> Events:
    topic = kafka.topic(2)
    return topic, ow.read_kafka(spark, kafka.bootstrap, topics=[topic])


@pytest.fixture
def several(kafka: Kafka, postgres: PostgresServer, tmp_path: Path) -> dict[str, Any]:
    """Sinks that all write over tasks."""
    database = Database.new(postgres)
    database.admin("CREATE TABLE target (value text)")
    return {
        "files": ow.FileSink(tmp_path / "files", small_epoch_bytes=0),
        "delta": DeltaSink(tmp_path / "delta", small_epoch_bytes=0),
        "postgres": PostgresSink(database.dsn(), table="target", small_epoch_bytes=0),
        "kafka": ow.KafkaSink(kafka.bootstrap, topic=kafka.topic(2), small_epoch_bytes=0),
    }


def counting(calls: Counted) -> Callable[[str], str]:
    def function(value):  # type: ignore[no-untyped-def] # as a user writes it
        calls.add(1)
        return value

    return function


def by_udf(events: DataFrame, calls: Counted) -> DataFrame:
    return events.select(F.udf(counting(calls), "string")(events.value.cast("string")).alias("value"))


def in_arrow(events: DataFrame, calls: Counted) -> DataFrame:
    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            calls.add(batch.num_rows)
            yield batch

    return events.selectExpr("cast(value as string) as value").mapInArrow(through, "value string")


def feed(kafka: Kafka, source: str) -> None:
    kafka.feed(source, [(f"k{number}", f"v{number}") for number in range(ROWS)])


@pytest.mark.parametrize("compute", [by_udf, in_arrow])
def test_a_function_of_the_query_is_called_once_for_all_sinks(
    kafka: Kafka,
    events: Events,
    several: dict[str, Any],
    calls: Counted,
    name: str,
    tmp_path: Path,
    compute: Callable[[DataFrame, Counted], DataFrame],
) -> None:
    """B9: an epoch of many sinks is one computation, and they cannot disagree about it."""
    source, frame = events
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=compute(frame, calls))
    for sink_name, sink in several.items():
        pipeline.to(sink, name=sink_name)
    for epoch in (1, 2):
        feed(kafka, source)
        run(pipeline)
        assert calls.value == ROWS * epoch
    assert len(kafka.values(several["kafka"].topic)) == 2 * ROWS


def test_a_function_of_one_sinks_rows_is_called_once_and_for_that_sink(
    kafka: Kafka, events: Events, several: dict[str, Any], calls: Counted, name: str, tmp_path: Path
) -> None:
    source, frame = events
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=frame.selectExpr("cast(value as string) as value"))
    for sink_name, sink in several.items():
        pipeline.to(sink, name=sink_name, rows=lambda batch: by_udf(batch, calls))
    for epoch in (1, 2):
        feed(kafka, source)
        run(pipeline)
        assert calls.value == ROWS * epoch * len(several)


@pytest.mark.parametrize("others", [(), ("files", "delta", "postgres")], ids=["kafka alone", "beside other sinks"])
def test_a_function_whose_failures_are_dead_letters_is_called_once(
    kafka: Kafka,
    events: Events,
    several: dict[str, Any],
    calls: Counted,
    name: str,
    tmp_path: Path,
    others: tuple[str, ...],
) -> None:
    """F4: good rows and dead letters are two looks at one computation, and other sinks have a third."""

    def parsed(value):  # type: ignore[no-untyped-def] # as a user writes it
        calls.add(1)
        return {"value": value.decode()} if int(value[1:]) % 3 else {}["wrong"]

    source, frame = events
    dead = kafka.topic(1)
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=ow.parse(frame, parsed, "value string"))
    pipeline.to(several["kafka"], rows=ow.with_dead_letters(lambda good: good.select("value"), topic=dead))
    for other in others:
        pipeline.to(several[other], name=other, rows=ow.good_rows)
    for epoch in (1, 2):
        feed(kafka, source)
        run(pipeline)
        assert calls.value == ROWS * epoch
    assert len(kafka.values(several["kafka"].topic)) == 2 * (2 * ROWS // 3)
    assert len(kafka.read(dead)) == 2 * ROWS // 3


def test_a_second_try_calls_it_once_more_and_ships_what_it_made(
    kafka: Kafka,
    events: Events,
    several: dict[str, Any],
    calls: Counted,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each try is one computation. In a second one Kafka's record batches are shipped to one writer a partition."""
    votes = iter([RuntimeError("no, this time")])
    vote = several["files"].pre_commit

    def once(*arguments: Any) -> Any:
        for error in votes:
            raise error
        return vote(*arguments)

    monkeypatch.setattr(several["files"], "pre_commit", once)
    source, frame = events
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=by_udf(frame, calls))
    for sink_name, sink in several.items():
        pipeline.to(sink, name=sink_name)
    feed(kafka, source)
    run(pipeline)
    assert calls.value == 2 * ROWS
    assert len(kafka.values(several["kafka"].topic)) == ROWS


def test_what_one_job_looks_at_twice_is_computed_before_it_begins(spark: SparkSession, calls: Counted) -> None:
    """Two of its tasks, on two machines, might each compute it, and disagree."""
    rows = by_udf(spark.range(ROWS).selectExpr("cast(id as string) as value"), calls)
    with kept(rows, at_once=True) as shared:
        assert calls.value == ROWS
        assert shared.union(shared).count() == 2 * ROWS
    assert calls.value == ROWS
