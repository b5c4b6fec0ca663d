"""A reset on a real broker and a real Spark: from zero, from offsets, from the group's, and out of a wrong topic."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.home import LINEAGES
from onceward.errors import HomeInUse, ResetRefused, SourceRemoved
from support import outputs
from support.crashes import Crash
from support.judge import Kafka
from support.runs import crash, run


class Job:
    """Distinct values of a topic with two partitions, into Kafka and files."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.folder = spark, kafka, name, folder
        self.source = kafka.topic(2)
        self.outputs = [outputs.kafka(kafka, 10 << 20), outputs.files(folder, 10 << 20)]

    def pipeline(self, source: str | None = None) -> ow.Pipeline:
        events = ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[source or self.source])
        rows = events.selectExpr("cast(value as string) as value").dropDuplicates(["value"])
        pipeline = ow.Pipeline(self.name, home=self.folder / "home", source=rows)
        for output in self.outputs:
            pipeline.to(eval(output.text, {"ow": ow}))
        return pipeline

    def feed(self, *values: int, source: str | None = None, partition: int = 0) -> None:
        for value in values:
            self.kafka.producer.produce(source or self.source, value=str(value), partition=partition)
        assert self.kafka.producer.flush(30) == 0

    def require(self, wanted: Counter[int]) -> None:
        for output in self.outputs:
            assert Counter(map(int, output.values())) == wanted
            assert output.leftovers() == []


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Job:
    return Job(spark, kafka, name, tmp_path)


def test_from_zero_from_offsets_and_from_the_group(job: Job) -> None:
    """I3: state and epochs begin anew; what the sinks hold stays there, and is noted as such."""
    job.feed(1, 2, 3)
    job.feed(4, 5, partition=1)
    run(job.pipeline())
    told: list[str] = []
    job.pipeline().reset(confirm=told.extend)
    assert [line.partition(":")[0] for line in told] == ["state", "input", "kafka", "file"]
    assert "kafka: keeps epochs up to 0; events that are read again are written again: readers see them" in told[2]
    query = run(job.pipeline())
    assert [entry.epoch for entry in query.epochs] == [0]
    job.require(Counter(dict.fromkeys(range(1, 6), 2)))

    with pytest.raises(ResetRefused, match=rf"{job.source}/1 would be left to chance. Name them all"):
        job.pipeline().reset(offsets={(job.source, 0): 1})
    with pytest.raises(
        ResetRefused, match=rf"{job.source}/1 cannot begin at 3: the topic holds offsets from 0 up to 2"
    ):
        job.pipeline().reset(offsets={(job.source, 0): 1, (job.source, 1): 3})
    with pytest.raises(ResetRefused, match=r"other/0 is not read by the pipeline"):
        job.pipeline().reset(offsets={("other", 0): 1})
    job.pipeline().reset(offsets={(job.source, 0): 2, (job.source, 1): 2})
    run(job.pipeline())
    job.require(Counter({1: 2, 2: 2, 3: 3, 4: 2, 5: 2}))

    job.feed(3, 6)  # 3 once more: the state has forgotten it
    job.pipeline().reset(from_group=True)
    query = run(job.pipeline())
    assert [entry.epoch for entry in query.epochs] == [0]
    job.require(Counter({1: 2, 2: 2, 3: 4, 4: 2, 5: 2, 6: 1}))
    job.feed(7)
    run(job.pipeline())
    job.require(Counter({1: 2, 2: 2, 3: 4, 4: 2, 5: 2, 6: 1, 7: 1}))


def test_a_home_whose_first_start_named_the_wrong_topic_has_a_way_out(job: Job) -> None:
    """I3: the message names it, and the group's marker on the wrong topic is in nobody's way afterwards."""
    wrong = job.kafka.topic(1)
    job.feed(100, source=wrong)
    run(job.pipeline(wrong))
    run(job.pipeline(wrong))
    job.feed(1, 2)
    with pytest.raises(SourceRemoved, match=rf"'{wrong}', and the pipeline reads '{job.source}' now.*onceward reset"):
        run(job.pipeline())
    job.pipeline().reset()
    run(job.pipeline())
    job.feed(3)
    run(job.pipeline())
    job.require(Counter([100, 1, 2, 3]))


@pytest.mark.parametrize(("point", "again"), [("reset-ready", False), ("reset-begun", True)])
def test_a_reset_that_dies_is_done_or_not(job: Job, crash_at: Callable[..., None], point: str, again: bool) -> None:
    """E8, I3: softly, at every named point; a kill leaves the same files."""
    job.feed(1, 2)
    run(job.pipeline())
    crash_at(point)
    with pytest.raises(Crash):
        job.pipeline().reset(offsets={(job.source, 0): 1, (job.source, 1): 0})
    crash_at(None)
    job.feed(3)
    run(job.pipeline(), take_over=True)
    job.require(Counter([1, 2, 3, *([2] if again else [])]))
    assert len(list((job.folder / "home" / LINEAGES).iterdir())) == 1


def test_a_reset_waits_for_nobody_who_lives_and_finishes_no_ones_epoch(job: Job, crash_at: Callable[..., None]) -> None:
    """I3: refused while a driver lives, and while an epoch is in doubt."""
    job.feed(1)
    with job.pipeline().start() as query:
        query.process_all_available()
        with pytest.raises(HomeInUse, match="--take-over"):
            job.pipeline().reset()
    job.feed(2)
    crash_at("prepared")
    crash(job.pipeline())
    crash_at(None)
    with pytest.raises(ResetRefused, match=r"epoch 1 of .* is in doubt"):
        job.pipeline().reset(take_over=True)
    run(job.pipeline(), take_over=True)
    job.require(Counter([1, 2]))


def test_each_source_begins_with_the_offsets_of_its_own_topics(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """I3: several sources, one of them twice, beside one of another kind: numbered as Spark numbers them."""
    one, other, target = kafka.topic(1), kafka.topic(1), kafka.topic(1)
    kafka.feed(one, [(None, value) for value in ("1", "2")])
    kafka.feed(other, [(None, value) for value in ("10", "20", "30")])

    def pipeline() -> ow.Pipeline:
        first, second = (ow.read_kafka(spark, kafka.bootstrap, topics=[it]).select("value") for it in (one, other))
        files = spark.readStream.schema("value binary").parquet(str(tmp_path / "input"))
        rows = files.union(second).union(first.union(first))
        return ow.Pipeline(name, home=tmp_path / "home", source=rows).to(ow.KafkaSink(kafka.bootstrap, topic=target))

    (tmp_path / "input").mkdir()
    run(pipeline())
    assert sorted(kafka.values(target)) == ["1", "1", "10", "2", "2", "20", "30"]
    pipeline().reset(offsets={(one, 0): 1, (other, 0): 2})
    run(pipeline())
    assert sorted(kafka.values(target)[7:]) == ["2", "2", "30"]
