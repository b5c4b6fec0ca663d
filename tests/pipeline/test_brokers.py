"""Three brokers, of which one after the other goes: the coordinator really moves, and nothing is lost."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.kafka.wire import TRANSACTION, Cluster, Wire
from onceward.servers.broker import DevBroker
from support.judge import Kafka
from support.waiting import eventually


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DevBroker]:
    with DevBroker(tmp_path / "kafka", port=0, brokers=3) as brokers:
        yield brokers


def coordinator(bootstrap: str, name: str) -> int:
    """As a client that knows nothing finds it."""
    wire = Wire(Cluster(bootstrap))
    try:
        return wire.coordinator(name, TRANSACTION)
    finally:
        wire.close()


class Job:
    """A pipeline from topic to topic, both on every broker."""

    def __init__(self, spark: SparkSession, cluster: DevBroker, name: str, home: Path) -> None:
        self._wire = Wire(Cluster(cluster.bootstrap))
        self.kafka, self.source, self.target, self.fed = (
            Kafka(cluster.bootstrap, self._wire),
            f"{name}-in",
            f"{name}-out",
            0,
        )
        for topic in (self.source, self.target):
            self._wire.create_topics([topic], 3, replicas=3, settings={"min.insync.replicas": "1"})
        events = ow.read_kafka(spark, cluster.bootstrap, topics=[self.source]).select("key", "value")
        self.pipeline = ow.Pipeline(name, home=home, source=events).to(
            ow.KafkaSink(cluster.bootstrap, topic=self.target)
        )

    def feed(self) -> None:
        self.kafka.feed(self.source, ((str(n), str(n)) for n in range(self.fed, self.fed + 50)))
        self.fed += 50

    def require_exact(self) -> None:
        assert sorted(map(int, self.kafka.values(self.target))) == list(range(self.fed))
        self._wire.close()


def written(query: ow.Query) -> int | None:
    return query.rows_written.get("kafka")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_of_three_brokers_may_go_at_once_and_nothing_is_lost(
    spark: SparkSession, cluster: DevBroker, name: str, tmp_path: Path
) -> None:
    """C8: one is left, which can decide nothing; once the others are back, the pipeline goes on where it was."""
    job = Job(spark, cluster, name, tmp_path / "home")
    query = job.pipeline.start()
    job.feed()
    eventually(lambda: query.is_active and written(query) == job.fed, "three brokers")
    first = coordinator(cluster.bootstrap, name)
    job.feed()
    gone = [first, first % 3 + 1]
    for node in gone:
        cluster.kill(node)
    assert [cluster.state(node) for node in gone] == ["stopped", "stopped"]
    for node in gone:
        cluster.restart(node)
    job.feed()
    with contextlib.suppress(ow.OncewardError):  # it may have stopped with a named error; nothing else is suppressed
        eventually(
            lambda: not query.is_active or written(query) == job.fed,
            "it goes on, or has said why not",
            150,
        )
        query.stop()
    job.pipeline.start(trigger="once").wait(120)
    job.require_exact()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_any_of_three_brokers_may_go_also_the_one_that_coordinates(
    spark: SparkSession, cluster: DevBroker, name: str, tmp_path: Path
) -> None:
    """C8: the pipeline goes on under another coordinator, twice."""
    job = Job(spark, cluster, name, tmp_path / "home")

    def committed() -> bool:
        return query.is_active and written(query) == job.fed

    with job.pipeline.start() as query:
        job.feed()
        eventually(committed, "three brokers")
        first = coordinator(cluster.bootstrap, name)
        cluster.kill(first)
        job.feed()
        eventually(committed, "two brokers", 150)
        second = coordinator(cluster.bootstrap, name)
        assert second != first
        cluster.restart(first)
        cluster.kill(second)
        job.feed()
        eventually(committed, "two brokers again", 150)
        assert coordinator(cluster.bootstrap, name) != second
        cluster.restart(second)
    job.require_exact()
