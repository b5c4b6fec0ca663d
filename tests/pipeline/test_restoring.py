"""Savepoints restored: the same results as a run that nobody disturbed, under whichever name, width and backend."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions

import onceward as ow
from onceward.errors import ConfigurationError, SavepointOutdated, SavepointUnusable
from support.judge import Kafka

pytestmark = pytest.mark.slow


class Job:
    """Distinct values of a topic: state that was lost or applied twice shows as a doubled or a missing row."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.folder = spark, kafka, name, folder
        self.source, self.target = kafka.topic(3), kafka.topic(3)

    def pipeline(self, name: str = "", target: str = "", home: str = "home", **said: Any) -> ow.Pipeline:
        events = ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[self.source])
        rows = events.selectExpr("cast(value as string) as value").dropDuplicates(["value"])
        return ow.Pipeline(name or self.name, home=self.folder / home, source=rows, **said).to(
            ow.KafkaSink(self.kafka.bootstrap, topic=target or self.target)
        )

    def feed(self, *values: int) -> None:
        self.kafka.feed(self.source, ((str(value), str(value)) for value in values))

    def run(self, pipeline: ow.Pipeline, **said: Any) -> ow.Query:
        query = pipeline.start(trigger="once", **said)
        query.wait(120)
        return query

    def seen(self, target: str = "") -> Counter[int]:
        return Counter(map(int, self.kafka.values(target or self.target)))


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Job:
    return Job(spark, kafka, name, tmp_path)


@pytest.mark.parametrize("home", ["home", "elsewhere"])
def test_what_a_savepoint_held_is_neither_lost_nor_applied_again(job: Job, home: str) -> None:
    """E6: in its own home, and in a new one while the old one is gone."""
    job.feed(*range(20))
    place = job.run(job.pipeline()).savepoint(to=job.folder / "saved")
    if home == "elsewhere":
        (job.folder / "home").rename(job.folder / "gone")
    job.feed(*range(10, 30))
    job.run(job.pipeline(home=home), from_savepoint=place)
    job.feed(*range(25, 35))
    job.run(job.pipeline(home=home))
    assert job.seen() == Counter(range(35))


@pytest.mark.parametrize("backend", ["rocksdb", "hashmap"])
def test_state_is_shared_out_over_other_numbers_of_partitions(job: Job, backend: Any) -> None:
    """E7: up and down; every key is found again."""
    state = ow.State(backend)
    job.feed(*range(40))
    query = job.run(job.pipeline(state=state))
    fed = 40
    for step, partitions in enumerate((3, 5, 1, 2)):
        place = query.savepoint(to=job.folder / f"saved-{step}")
        job.feed(*range(fed - 30, fed + 10))
        fed += 10
        query = job.run(job.pipeline(state=state), from_savepoint=place, partitions=partitions)
    assert job.seen() == Counter(range(fed))


def test_the_backend_changes_through_a_savepoint(job: Job) -> None:
    """E2: and only so; state that was converted is complete."""
    job.feed(*range(20))
    place = job.run(job.pipeline(state=ow.State("rocksdb"))).savepoint()
    with pytest.raises(ConfigurationError, match="through a savepoint"):
        job.pipeline(state=ow.State("hashmap")).start()
    job.feed(*range(10, 30))
    place = job.run(job.pipeline(state=ow.State("hashmap")), from_savepoint=place).savepoint()
    job.feed(*range(20, 40))
    job.run(job.pipeline(state=ow.State("rocksdb")), from_savepoint=place)
    assert job.seen() == Counter(range(40))


def test_a_copy_under_another_name_goes_its_own_way(job: Job) -> None:
    """E6: its own group, transactional id and home; the original goes on undisturbed."""
    job.feed(*range(20))
    place = job.run(job.pipeline()).savepoint()
    staging = job.kafka.topic(3)
    job.feed(*range(10, 30))
    job.run(job.pipeline(f"{job.name}-copy", staging, "copy"), from_savepoint=place)
    assert job.seen(staging) == Counter(range(20, 30))
    job.run(job.pipeline())
    assert job.seen() == Counter(range(30))


def test_an_old_savepoint_is_refused_and_restored_only_knowingly(job: Job) -> None:
    """E8: with epochs, positions and records; then everything after it is committed once more, as said."""
    job.feed(*range(20))
    place = job.run(job.pipeline()).savepoint()
    job.feed(*range(20, 30))
    job.run(job.pipeline())
    before = job.seen()
    with pytest.raises(SavepointOutdated, match=r"sink 'kafka' has committed epoch 1 since: 10 records"):
        job.pipeline().start(from_savepoint=place)
    assert job.seen() == before
    job.run(job.pipeline())  # the refusal has disturbed nothing
    job.run(job.pipeline(), from_savepoint=place, new_lineage=True)
    assert job.seen() == before + Counter(range(20, 30))
    job.feed(*range(30, 40))
    job.run(job.pipeline())
    assert job.seen() == before + Counter(range(20, 40))


def test_a_query_that_its_state_does_not_fit_is_refused_before_anything_is_touched(job: Job) -> None:
    """E6: another operator, another key, one more operator."""
    job.feed(*range(20))
    place = job.run(job.pipeline()).savepoint()
    events = ow.read_kafka(job.spark, job.kafka.bootstrap, topics=[job.source])
    text = events.selectExpr("cast(value as string) as value", "timestamp")
    changed: dict[str, DataFrame] = {
        "another operator": text.groupBy("value").count().select("value"),
        "another key": text.dropDuplicates(["timestamp"]).select("value"),
        "none": text.select("value"),
        "one more": text.dropDuplicates(["value"]).groupBy("value").agg(functions.count("*")).select("value"),
    }
    home = sorted(path.name for path in (job.folder / "home").rglob("*"))
    for what, rows in changed.items():
        pipeline = ow.Pipeline(job.name, home=job.folder / "home", source=rows, output_mode="update").to(
            ow.KafkaSink(job.kafka.bootstrap, topic=job.target)
        )
        with pytest.raises(SavepointUnusable, match="does not fit the query"):
            pipeline.start(from_savepoint=place)
        assert sorted(path.name for path in (job.folder / "home").rglob("*")) == home, what
