"""Two sources that read a topic of the same name: each has its own positions and its own skipped records.

One broker serves as both clusters here: to Spark and to the home they are two sources all the same.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows

import onceward as ow
from onceward.epoch.places import SourceRecord
from onceward.errors import ResetRefused, SkipRefused
from support.judge import Kafka
from support.outputs import files
from support.runs import crash, run


class Job:
    """What source 0 reads, as 0-VALUE, and what source 1 reads; `few`: source 0 reads one record an epoch."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.folder = spark, kafka, name, folder
        self.topic, self.few, self.poison = kafka.topic(1), False, ""
        self.output = files(folder, 10 << 20)

    def source(self, number: int) -> DataFrame:
        most = 1 if self.few and number == 0 else 1_000 + number  # equal sources would be one to Spark
        read = ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[self.topic], max_records_per_epoch=most)
        value = F.concat(F.lit(f"{number}-"), F.col("value").cast("string"))
        broken = F.raise_error(F.lit("poison")).cast("string")
        return read.select(F.when(value == F.lit(self.poison), broken).otherwise(value).alias("value"))

    def pipeline(self) -> ow.Pipeline:
        rows = self.source(0).unionAll(self.source(1))
        pipeline = ow.Pipeline(self.name, home=self.folder / "home", source=rows)
        return pipeline.to(eval(self.output.text, {"ow": ow}))

    def feed(self, *values: str) -> None:
        for value in values:
            self.kafka.producer.produce(self.topic, value=value)
        assert self.kafka.producer.flush(30) == 0

    def values(self) -> Counter[str]:
        return Counter(map(str, self.output.values()))


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Job:
    return Job(spark, kafka, name, tmp_path)


def test_a_record_is_skipped_in_the_source_that_is_named(job: Job) -> None:
    """I5: the good record of the other cluster, at the same place of a topic of the same name, is still read."""
    job.feed("a", "b", "c")
    job.poison = "1-b"
    with pytest.raises(ow.OncewardError):
        run(job.pipeline())
    with pytest.raises(SkipRefused, match=rf"several sources.*0:{job.topic}/0/1, 1:{job.topic}/0/1"):
        job.pipeline().skip(job.topic, 0, 1)
    skipped = job.pipeline().skip(job.topic, 0, 1, source=1, reason="poison")
    assert skipped.place == SourceRecord(1, job.topic, 0, 1)
    query = run(job.pipeline())
    assert job.values() == Counter(["0-a", "0-b", "0-c", "1-a", "1-c"])
    assert [entry.skipped for entry in query.epochs] == [[f"1:{job.topic}/0/1"]]


def test_a_reset_goes_on_in_each_source_where_it_was(job: Job, crash_at: Callable[..., None]) -> None:
    """I5: not at the lowest of all positions, from which what the other source is past would be written again."""
    job.few = True
    job.feed("a", "b", "c")
    crash_at("recorded")
    crash(job.pipeline())  # after one epoch: source 0 has read a, source 1 all three
    crash_at(None)
    assert job.values() == Counter(["0-a", "1-a", "1-b", "1-c"])
    job.pipeline().reset(from_group=True)
    run(job.pipeline())
    assert job.values() == Counter(["0-a", "0-b", "0-c", "1-a", "1-b", "1-c"])
    with pytest.raises(ResetRefused, match=r"is read by several sources: say which"):
        job.pipeline().reset(offsets={(job.topic, 0): 0})
    job.pipeline().reset(offsets={(0, job.topic, 0): 3, (1, job.topic, 0): 2})
    run(job.pipeline())
    assert job.values() == Counter(["0-a", "0-b", "0-c", "1-a", "1-b", "1-c", "1-c"])
