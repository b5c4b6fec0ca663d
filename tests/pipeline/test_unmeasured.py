"""Rows go to Python in batches that Spark does not measure, unless one of them is large."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import onceward as ow
from onceward.sinks.kafka import sink as sink_module
from onceward.sinks.kafka.unmeasured import BYTES, SIZE, unmeasured
from support.judge import Kafka
from support.runs import run

LARGEST = BYTES // 10_000


@pytest.fixture
def topics(kafka: Kafka) -> tuple[str, str]:
    return kafka.topic(2), kafka.topic(2)


@pytest.fixture
def build(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, topics: tuple[str, str]
) -> Callable[..., ow.Pipeline]:
    def make(*columns: str) -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]])
        rows = events.selectExpr("key", "cast(upper(cast(value as string)) as binary) as value", *columns)
        sink = ow.KafkaSink(kafka.bootstrap, topic=topics[1], small_epoch_bytes=0)
        return ow.Pipeline(name, home=tmp_path / "home", source=rows).to(sink)

    return make


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The bound in bytes of each job whose batches are not measured."""
    seen: list[str | None] = []

    @contextmanager
    def watched(rows: DataFrame) -> Iterator[DataFrame]:
        with unmeasured(rows) as small:
            seen.append(rows.sparkSession.conf.get(SIZE))
            yield small
        assert rows.sparkSession.conf.get(SIZE) != seen[-1]

    monkeypatch.setattr(sink_module, "unmeasured", watched)
    return seen


def test_small_rows_are_not_measured(
    kafka: Kafka, topics: tuple[str, str], build: Callable[..., ow.Pipeline], jobs: list[str | None]
) -> None:
    values = ["x" * (LARGEST - 1), "", None, "small"]
    kafka.feed(topics[0], [("k", value) for value in values])
    run(build())
    assert [it.value() for it in kafka.read(topics[1])] == [
        None if value is None else value.upper().encode() for value in values
    ]
    assert jobs == [str((1 << 31) - 1)]


def test_a_large_row_makes_all_that_follow_measured(
    kafka: Kafka, topics: tuple[str, str], build: Callable[..., ow.Pipeline], jobs: list[str | None]
) -> None:
    """Nothing is lost or repeated by the try that ended."""
    pipeline, values = build(), ["a", "x" * (LARGEST + 1), "b"]
    for _ in range(2):
        kafka.feed(topics[0], [("k", value) for value in values])
        run(pipeline)
    assert kafka.values(topics[1]) == [value.upper() for value in values] * 2
    assert len(jobs) == 1


def test_rows_whose_size_is_not_known_are_measured(
    kafka: Kafka, topics: tuple[str, str], build: Callable[..., ow.Pipeline], jobs: list[str | None]
) -> None:
    kafka.feed(topics[0], [("k", "v")])
    run(build("headers"))
    assert kafka.values(topics[1]) == ["V"]
    assert jobs == []


def test_rows_that_are_computed_batch_by_batch_are_measured_and_computed_once(
    spark: SparkSession, kafka: Kafka, topics: tuple[str, str], name: str, tmp_path: Path, jobs: list[str | None]
) -> None:
    """A filter would be put below the function, and the function be called for the filter too."""
    seen = spark.sparkContext.accumulator(0)

    @udf("string")
    def counting(value):  # type: ignore[no-untyped-def]
        seen.add(1)
        return value

    kafka.feed(topics[0], [("k", "v")] * 5)
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[topics[0]])
    sink = ow.KafkaSink(kafka.bootstrap, topic=topics[1], small_epoch_bytes=0)
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events)
    run(pipeline.to(sink, rows=lambda batch: batch.select("key", counting(batch.value.cast("string")).alias("value"))))
    assert kafka.values(topics[1]) == ["v"] * 5
    assert (seen.value, jobs) == (5, [])
