"""Sessions: what Onceward sets, and that a builder of one's own keeps its say."""

import os
import sys
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.jars import connector_jars
from onceward.sinks.kafka import jobs
from onceward.sinks.kafka.jobs import Poisoned


def test_a_builder_of_ones_own_keeps_what_it_says_and_gets_what_is_missing() -> None:
    builder = SparkSession.builder.config("spark.sql.shuffle.partitions", "9").config("spark.jars", "mine.jar")
    builder = builder.config("spark.driver.extraJavaOptions", "-Dmine=1")
    options = ow.configure(builder)._options
    assert options["spark.sql.shuffle.partitions"] == "9"
    assert options["spark.jars"].split(",") == ["mine.jar", *map(str, connector_jars())]
    assert options["spark.speculation"] == "false"
    assert options["spark.stage.maxConsecutiveAttempts"] == "1"
    assert options["spark.driver.extraJavaOptions"].startswith("-Dmine=1 -Dlog4j2")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_settings_are_taken_with_underscores_or_dots(spark: SparkSession) -> None:
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        again = ow.session("tests", master="local[2,4]", spark_sql_session_timeZone="Asia/Tokyo")
        assert again.conf.get("spark.sql.session.timeZone") == "Asia/Tokyo"
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)  # the other tests share this session


def stage(**facts: int) -> SimpleNamespace:
    found = {"stageId": 3, "numTasks": 4, "numCompletedTasks": 4, "numFailedTasks": 0, "currentAttemptId": 0, **facts}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in found.items()})


def test_a_stage_that_ran_again_or_lost_a_task_poisons_the_transaction() -> None:
    """Trap 14: only the driver can see it."""
    jobs._require_one_run(stage())
    jobs._require_one_run(stage(numCompletedTasks=0))  # skipped: its output was there already
    for wrong in ({"currentAttemptId": 1}, {"numFailedTasks": 1}, {"numCompletedTasks": 3}):
        with pytest.raises(Poisoned, match="stage 3"):
            jobs._require_one_run(stage(**wrong))


def test_the_driver_sees_through_spark_whether_a_task_failed(spark: SparkSession) -> None:
    """The real status store: a job whose task failed once and succeeded at its second attempt."""

    def stumble(index: int, rows: object) -> list[int]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if index == 1 and context.attemptNumber() == 0:
            raise RuntimeError("once")
        return [index]

    with jobs._tagged(spark) as clean:
        spark.sparkContext.parallelize(range(4), 2).collect()
    jobs.require_untouched(spark, clean)
    with jobs._tagged(spark) as tag:
        assert spark.sparkContext.parallelize(range(4), 2).mapPartitionsWithIndex(stumble).collect() == [0, 1]
    with pytest.raises(Poisoned, match="failed"):
        jobs.require_untouched(spark, tag)
