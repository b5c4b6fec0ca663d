"""A disk that is really full: the error names it and the fix, and nothing is lost or doubled once there is room."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import HomeUnusable, OncewardError, OutageTooLong, QueryFailed
from support.disks import Disk, small_disk
from support.judge import Kafka
from support.runs import run


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", 8) as made:
        yield made


class Job:
    """Events of a topic into files, as JSON."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, home: Path, target: Path) -> None:
        self.spark, self.kafka, self.name, self.home, self.target = spark, kafka, name, home, target
        self.source, self.fed = kafka.topic(1), 0

    def pipeline(self) -> ow.Pipeline:
        events = ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[self.source])
        return ow.Pipeline(self.name, home=self.home, source=events, patience="1s").to(
            ow.FileSink(self.target, format="json"), rows=lambda batch: batch.selectExpr("cast(value as string) value")
        )

    def feed(self, count: int) -> None:
        self.kafka.feed(self.source, [(None, f"event {self.fed + it}") for it in range(count)])
        self.fed += count

    def seen(self) -> Counter[str]:
        files = (it for it in self.target.rglob("*.json") if not any(part.startswith(".") for part in it.parts))
        return Counter(json.loads(line)["value"] for it in files for line in it.read_text().splitlines())

    def require_exact(self) -> None:
        assert self.seen() == Counter(f"event {it}" for it in range(self.fed))


def in_two_lines(error: BaseException) -> str:
    """As a user reads it: short, and nothing of Spark's."""
    text = str(error)
    assert len(text) < 500, text
    for noise in ("Traceback", "\tat ", "org.apache", "Py4J", "SQLSTATE"):
        assert noise not in text
    return text


def test_a_full_disk_under_the_home_stops_the_pipeline_and_room_lets_it_go_on(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, disk: Disk
) -> None:
    """I4, B4: full before the first start, while it runs, and at a start; whoever notices it, Python or Spark."""
    job = Job(spark, kafka, name, disk.path / "home", tmp_path / "out")
    job.feed(3)
    disk.fill()
    with pytest.raises(
        HomeUnusable, match=rf"cannot write into the home {disk.path}/home: no space left on device.*make room"
    ) as it:
        run(job.pipeline())
    in_two_lines(it.value)
    disk.make_room()
    run(job.pipeline())
    job.require_exact()
    job.feed(3)
    query = job.pipeline().start(trigger="200ms")
    query.process_all_available()
    disk.fill()
    job.feed(3)
    with pytest.raises((HomeUnusable, QueryFailed, OutageTooLong)) as stopped:
        query.wait(120)
    told = in_two_lines(stopped.value)
    assert str(disk.path) in told
    assert "no space left on device" in told.lower()
    assert "make room" in told.lower()
    with pytest.raises(OncewardError, match=f"(?i){disk.path}.*no space left on device") as again:
        run(job.pipeline())
    in_two_lines(again.value)
    disk.make_room()
    run(job.pipeline())
    job.require_exact()


def test_a_full_disk_under_the_files_is_waited_for_and_then_named(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, disk: Disk
) -> None:
    """I4, B4: the epoch is not visible in part, and after a start it is there once."""
    job = Job(spark, kafka, name, tmp_path / "home", disk.path / "out")
    job.feed(3)
    run(job.pipeline())
    job.feed(1000)
    disk.fill()
    with pytest.raises(OutageTooLong, match=r"(?i)sink 'file'.*no space left on device.*make room") as stopped:
        run(job.pipeline())
    assert str(disk.path) in in_two_lines(stopped.value)
    assert sum(job.seen().values()) == 3
    disk.make_room()
    run(job.pipeline())
    job.require_exact()
