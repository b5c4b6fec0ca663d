"""F2: rows behind the watermark are dropped by Spark without a word; a pipeline may say that none must be."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.errors import ConfigurationError, RowsDropped
from support.judge import Kafka

HOUR = 3_600


def deduplicated(events: DataFrame) -> DataFrame:
    return events.dropDuplicatesWithinWatermark(["id"])


def counted(events: DataFrame) -> DataFrame:
    return events.groupBy(F.window("time", "1 minute"), "id").count()


def joined(events: DataFrame) -> DataFrame:
    other = events.select(F.col("id").alias("other"), F.col("time").alias("when"))
    return events.join(other, F.expr("id = other and when between time - interval 1 minute and time"), "left_outer")


OPERATORS = (deduplicated, counted, joined)


@pytest.fixture
def pipeline(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Any:
    source, target = kafka.topic(1), kafka.topic(1)

    def make(operator: Callable[[DataFrame], DataFrame], **options: str) -> ow.Pipeline:
        read = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
        events = read.select(
            F.col("key").cast("string").alias("id"),
            F.timestamp_seconds(F.col("value").cast("string").cast("long")).alias("time"),
        ).withWatermark("time", "10 minutes")
        made = ow.Pipeline(name, home=tmp_path / "home", source=operator(events), **options)  # type: ignore[arg-type]
        return made.to(ow.KafkaSink(kafka.bootstrap, topic=target), rows=lambda rows: rows.selectExpr("id as value"))

    make.source, make.target = source, target  # type: ignore[attr-defined]
    return make


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda it: it.__name__)
def test_a_row_behind_the_watermark_stops_the_pipeline_before_its_epoch_is_out(
    pipeline: Any, kafka: Kafka, operator: Callable[[DataFrame], DataFrame]
) -> None:
    """F2: an event that Spark's state would not take is lost data where the watermark is meant to be wide enough."""
    kafka.feed(pipeline.source, [("a", str(10 * HOUR))])
    query = pipeline(operator, on_late_rows="fail").start(trigger="100ms")
    query.process_all_available()
    before = kafka.values(pipeline.target)
    kafka.feed(pipeline.source, [("late", str(9 * HOUR)), ("b", str(10 * HOUR))])
    with pytest.raises(RowsDropped, match=r"dropped \d+ rows .*behind the watermark.*on_late_rows='drop'"):
        query.wait(120)
    assert kafka.values(pipeline.target) == before


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_a_weaker_guarantee_stops_too_and_says_that_the_rest_may_be_visible(
    pipeline: Any, kafka: Kafka, guarantee: str
) -> None:
    kafka.feed(pipeline.source, [("a", str(10 * HOUR))])
    query = pipeline(deduplicated, on_late_rows="fail", guarantee=guarantee).start(trigger="100ms")
    query.process_all_available()
    kafka.feed(pipeline.source, [("late", str(9 * HOUR)), ("b", str(10 * HOUR))])
    with pytest.raises(RowsDropped, match=rf"The rest may be visible \({guarantee}\)"):
        query.wait(120)


def test_by_default_such_rows_go_as_spark_says(pipeline: Any, kafka: Kafka) -> None:
    kafka.feed(pipeline.source, [("a", str(10 * HOUR))])
    with pipeline(deduplicated).start(trigger="100ms") as query:
        query.process_all_available()
        kafka.feed(pipeline.source, [("late", str(9 * HOUR)), ("b", str(10 * HOUR))])
        query.process_all_available()
    assert kafka.values(pipeline.target) == ["a", "b"]


def test_a_row_just_inside_the_watermark_is_no_matter(pipeline: Any, kafka: Kafka) -> None:
    kafka.feed(pipeline.source, [("a", str(10 * HOUR))])
    with pipeline(deduplicated, on_late_rows="fail").start(trigger="100ms") as query:
        query.process_all_available()
        kafka.feed(pipeline.source, [("b", str(10 * HOUR - 599))])
        query.process_all_available()
    assert kafka.values(pipeline.target) == ["a", "b"]


def test_another_word_for_it_is_refused(pipeline: Any) -> None:
    with pytest.raises(ConfigurationError, match="on_late_rows is 'drop' or 'fail'"):
        pipeline(deduplicated, on_late_rows="ignore")
