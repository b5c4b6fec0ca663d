"""Which record makes an epoch fail, on a real broker and a real Spark: found in parts that are written nowhere."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import onceward as ow
from onceward.errors import SkipRefused, UserCodeFailed
from onceward.pipeline.finding import _within
from support.judge import Kafka
from support.runs import run


class Job:
    """Numbers of a topic, doubled by a function of Python's; what is no number makes the epoch fail."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.home = spark, kafka, name, folder / "home"
        self.source, self.target = kafka.topic(2), kafka.topic(1)

    def pipeline(self, source: DataFrame | None = None) -> ow.Pipeline:
        def double(text: str) -> str:
            return str(2 * int(text))

        self.line = double.__code__.co_firstlineno + 1
        doubled = sf.udf(double, "string", useArrow=False)
        sink = ow.KafkaSink(self.kafka.bootstrap, topic=self.target)
        events = source if source is not None else self.events()
        return ow.Pipeline(self.name, home=self.home, source=events).to(
            sink, rows=lambda batch: batch.select("key", doubled(sf.col("value").cast("string")).alias("value"))
        )

    def events(self) -> DataFrame:
        return ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[self.source])

    def feed(self, partition: int, *values: str) -> None:
        for value in values:
            self.kafka.producer.produce(self.source, partition=partition, value=value)
        assert self.kafka.producer.flush(30) == 0

    def files(self) -> dict[str, bytes]:
        return {str(it.relative_to(self.home)): it.read_bytes() for it in self.home.rglob("*") if it.is_file()}


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Job:
    return Job(spark, kafka, name, tmp_path)


def test_all_poison_records_of_an_epoch_are_found_and_nothing_is_touched(job: Job) -> None:
    """I3: named with their errors; home and topics are as they were, and without them the epoch runs.

    One is the first record of its partition.
    """
    job.feed(0, "1")
    run(job.pipeline())
    job.feed(0, "2", "four", "5")
    job.feed(1, "twenty", "10")
    with pytest.raises(UserCodeFailed):
        run(job.pipeline())
    before, ends = job.files(), job.kafka.end_offsets(job.target)
    said: list[str] = []
    found = job.pipeline().find_poison(report=said.append)
    assert [(str(it.record.place), it.record.value) for it in found] == [
        (f"{job.source}/0/2", b"four"),
        (f"{job.source}/1/0", b"twenty"),
    ]
    assert {it.epoch for it in found} == {1}
    assert "ValueError: invalid literal for int() with base 10: 'four'" in found[0].error
    assert f"{__file__}, line {job.line}: ValueError" in found[1].error
    assert said[0] == "epoch 1 has 5 offsets; it is run in parts, and nothing is written"
    assert job.files() == before
    assert job.kafka.end_offsets(job.target) == ends
    for it in found:
        job.pipeline().skip(it.record.topic, it.record.partition, it.record.offset)
    run(job.pipeline())
    assert Counter(job.kafka.values(job.target)) == Counter(str(2 * it) for it in (1, 2, 5, 10))


@pytest.mark.parametrize(
    ("part", "cut"),
    [
        (None, range(0)),
        (range(1), range(1)),
        (range(1, 3), range(1, 3)),
        (range(9), range(3)),
        (range(3, 9), range(3, 3)),
    ],
)
def test_a_part_of_a_partition_may_be_its_first_record(part: range | None, cut: range) -> None:
    found = _within(range(3), part)
    assert (found.start, found.stop) == (cut.start, cut.stop)


def test_nothing_is_accused_where_no_part_of_an_epoch_can_tell(job: Job) -> None:
    """I3: a skipped record is lost to the sinks, so a guess would be worse than none."""
    job.feed(0, "1", "2")
    with pytest.raises(SkipRefused, match="is nobody's home yet"):
        job.pipeline().find_poison()
    run(job.pipeline())
    with pytest.raises(SkipRefused, match="has no epoch that is planned and not committed"):
        job.pipeline().find_poison()
    state = job.events().dropDuplicates(["value"])
    with pytest.raises(SkipRefused, match=r"keeps state \(Deduplicate\).*max_records_per_epoch=1000"):
        job.pipeline(state).find_poison()
    other = job.spark.readStream.format("rate").load().selectExpr("cast(null as string) key", "'1' value")
    with pytest.raises(SkipRefused, match="does not read from Kafka alone"):
        job.pipeline(job.events().selectExpr("cast(key as string) key", "cast(value as string) value").union(other)
                     ).find_poison()  # fmt: skip


def test_an_epoch_that_only_a_sink_refuses_has_no_poison_record(job: Job, tmp_path: Path) -> None:
    """I3: what is computed without a fault is told so."""

    def refuse(rows: DataFrame, epoch: int) -> None:
        raise ValueError("not today")

    job.feed(0, "1", "2")
    sink = ow.FunctionSink(refuse, idempotent=True)
    pipeline = ow.Pipeline(job.name, home=tmp_path / "other", source=job.events()).to(sink)
    with pytest.raises(Exception, match="not today"):
        run(pipeline)
    with pytest.raises(SkipRefused, match="epoch 0 runs through when it is computed and not written"):
        pipeline.find_poison()
