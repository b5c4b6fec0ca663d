"""A poison record, skipped, on a real broker and a real Spark: passed over once, on record, carried to dead letters."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.epoch import skips
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import Home
from onceward.epoch.inspection import epochs
from onceward.errors import SkipRefused, UserCodeFailed
from onceward.pipeline.opening import now
from onceward.pipeline.skipping import without
from onceward.savepoint.creating import create
from support.judge import Kafka
from support.runs import crash, run


class Job:
    """Distinct numbers of a topic; what is no number makes the epoch fail."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.home = spark, kafka, name, folder / "home"
        self.source, self.target, self.dead = kafka.topic(1), kafka.topic(1), kafka.topic(1)

    def rows(self) -> DataFrame:
        events = ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[self.source])
        number = "cast(cast(cast(value as string) as int) as string) as value"
        return events.selectExpr("key", number).dropDuplicates(["value"])

    def pipeline(self, dead_letters: str | None = None) -> ow.Pipeline:
        sink = ow.KafkaSink(self.kafka.bootstrap, topic=self.target, dead_letters=dead_letters)
        return ow.Pipeline(self.name, home=self.home, source=self.rows()).to(sink)

    def feed(self, *values: str) -> None:
        for value in values:
            self.kafka.producer.produce(self.source, key="k", value=value, headers=[("of", b"mine")])
        assert self.kafka.producer.flush(30) == 0

    def values(self) -> Counter[str]:
        return Counter(self.kafka.values(self.target))


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Job:
    return Job(spark, kafka, name, tmp_path)


def test_a_poison_record_goes_to_the_dead_letters_with_its_epoch(job: Job, crash_at: Callable[..., None]) -> None:
    """I3, F4: the planned epoch is run without it; replayed after a crash it has the same digest."""
    job.feed("1", "2")
    run(job.pipeline())
    job.feed("3", "poison", "3", "4")
    with pytest.raises(UserCodeFailed):
        run(job.pipeline())
    skipped = job.pipeline(job.dead).skip(job.source, 0, 3, reason="no number", dead_letters=True)
    assert (skipped.key, skipped.value, skipped.headers) == (b"k", b"poison", [("of", b"mine")])
    crash_at("recorded")
    crash(job.pipeline(job.dead))
    crash_at(None)
    said: list[str] = []
    job.pipeline(job.dead).start(trigger="once", report=said.append).wait(120)
    assert f"records that are left out, as the home's skipped.json says: {job.source}/0/3 (to {job.dead})" in said
    job.feed("5", "1")
    run(job.pipeline(job.dead))
    assert job.values() == Counter("12345")
    (letter,) = job.kafka.read(job.dead)
    assert (letter.key(), letter.value()) == (b"k", b"poison")
    headers = dict(letter.headers())
    assert headers["of"] == b"mine"
    told = {name: headers[f"dead-letter-{name}"].decode() for name in ("reason", "topic", "partition", "offset")}
    assert told == {"reason": "no number", "topic": job.source, "partition": "0", "offset": "3"}
    assert [entry.skipped for entry in epochs(Home.at(job.home), 3)] == [[], [f"{job.source}/0/3"], []]


def test_what_cannot_be_skipped_is_refused_with_the_reason(job: Job) -> None:
    """I3: committed, not there yet, of no source, without a place for dead letters; nothing changes."""
    job.feed("1", "2")
    with pytest.raises(SkipRefused, match="is nobody's home yet"):
        job.pipeline().skip(job.source, 0, 0)
    run(job.pipeline())
    for place, reason in {
        (job.source, 0, 1): r"/0/1 is in the past: the pipeline is committed up to offset 2 \(epoch 0\)",
        (job.source, 0, 2): "is not there: the partition holds offsets from 0 up to 2",
        (job.target, 0, 0): "is no partition that the pipeline reads",
    }.items():
        with pytest.raises(SkipRefused, match=reason):
            job.pipeline().skip(*place)
    job.feed("3")
    with pytest.raises(SkipRefused, match="there is no topic 'nowhere' in the cluster"):
        job.pipeline("nowhere").skip(job.source, 0, 2, dead_letters=True)
    with pytest.raises(SkipRefused, match=r"has no topic for dead letters; name one in the pipeline's file"):
        job.pipeline().skip(job.source, 0, 2, dead_letters=True)
    function = ow.FunctionSink(lambda *_: None, idempotent=True)
    other = ow.Pipeline(job.name, home=job.home, source=job.rows()).to(function)
    with pytest.raises(SkipRefused, match=r"has no Kafka sink.*leave --dead-letters out"):
        other.skip(job.source, 0, 2, dead_letters=True)
    job.pipeline().skip(job.source, 0, 2)
    job.pipeline().unskip(job.source, 0, 2)
    run(job.pipeline())
    assert job.values() == Counter("123")
    with pytest.raises(SkipRefused, match="is in the past"):
        job.pipeline().unskip(job.source, 0, 2)


def test_a_home_names_neither_where_a_skipped_record_goes_nor_what_it_holds(job: Job) -> None:
    """J5: who can write into a home cannot write into a topic: place and bytes are Kafka's and the file's."""
    job.feed("1", "poison")
    letters = job.pipeline(job.dead)
    with pytest.raises(UserCodeFailed):
        run(letters)
    letters.skip(job.source, 0, 1, dead_letters=True)
    (noted,) = skips.read(Checkpoint.noted(Home.at(job.home), skips.FILE))
    for forged, reason in (
        (msgspec.structs.replace(noted, dead_letters=job.target), "the pipeline's file names"),
        (msgspec.structs.replace(noted, value=b"forged"), "holds something else than skipped.json"),
    ):
        notes = Checkpoint.newest(Home.at(job.home)).notes  # each start takes them along
        skips.remove(notes, noted.place)
        skips.add(notes, forged)
        with pytest.raises(SkipRefused, match=reason):
            run(job.pipeline(job.dead))
        assert not job.values()
        assert not job.kafka.read(job.dead)


def test_a_savepoint_carries_what_is_skipped_ahead_of_it(job: Job, tmp_path: Path) -> None:
    """I3, E2: the restored pipeline does not stop at the record again, and its epoch takes it to the dead letters."""
    job.feed("1", "2")
    run(job.pipeline(job.dead))
    job.feed("3", "poison", "4")
    with pytest.raises(UserCodeFailed):
        run(job.pipeline(job.dead))
    job.pipeline(job.dead).skip(job.source, 0, 3, reason="no number", dead_letters=True)
    place = create(Home.at(job.home), to=tmp_path / "savepoint", now=now)
    said: list[str] = []
    restored = job.pipeline(job.dead).start(trigger="once", from_savepoint=place.location, report=said.append)
    restored.wait(120)
    assert any("records that are left out" in it and f"{job.source}/0/3" in it for it in said)
    assert job.values() == Counter("1234")
    assert [it.value() for it in job.kafka.read(job.dead)] == [b"poison"]


def test_the_filter_is_above_each_kafka_source_and_changes_no_column(job: Job) -> None:
    """Below everything that keeps state: a join and a union have it twice, a source of another kind has none."""
    from onceward.epoch.skips import Skipped

    one, other = job.rows(), job.rows()
    rate = job.spark.readStream.format("rate").load().selectExpr("cast(null as binary) as key", "'r' as value")
    frame = one.join(other.withColumnRenamed("key", "second"), "value").select("key", "value").union(rate)
    record = Skipped(topic="it's \\ one", partition=0, offset=3)
    filtered = without(frame, [record, msgspec.structs.replace(record, source=1)])
    assert filtered.schema == frame.schema
    plan = str(filtered._jdf.queryExecution().analyzed().toString())
    assert plan.count("it's") == 2
    one_only = without(frame, [record])._jdf.queryExecution().analyzed().toString()
    assert one_only.count("it's") == 1, "the other source has a record of its own there"
    assert without(rate, [record])._jdf.queryExecution().analyzed().toString().count("it's") == 0
