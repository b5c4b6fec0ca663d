"""Three brokers, of which one after the other goes: the coordinator really moves, and nothing is lost."""

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


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_any_of_three_brokers_may_go_also_the_one_that_coordinates(
    spark: SparkSession, cluster: DevBroker, name: str, tmp_path: Path
) -> None:
    """C8: the pipeline goes on under another coordinator, twice."""
    wire = Wire(Cluster(cluster.bootstrap))
    kafka = Kafka(cluster.bootstrap, wire)
    for topic in (f"{name}-in", f"{name}-out"):
        wire.create_topics([topic], 3, replicas=3, settings={"min.insync.replicas": "1"})
    events = ow.read_kafka(spark, cluster.bootstrap, topics=[f"{name}-in"]).select("key", "value")
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(
        ow.KafkaSink(cluster.bootstrap, topic=f"{name}-out")
    )
    fed = 0

    def feed() -> None:
        nonlocal fed
        kafka.feed(f"{name}-in", ((str(n), str(n)) for n in range(fed, fed + 50)))
        fed += 50

    def committed() -> bool:
        return query.is_active and query.rows_committed == fed

    with pipeline.start() as query:
        feed()
        eventually(committed, "three brokers")
        first = coordinator(cluster.bootstrap, name)
        cluster.kill(first)
        feed()
        eventually(committed, "two brokers", 150)
        second = coordinator(cluster.bootstrap, name)
        assert second != first
        cluster.restart(first)
        cluster.kill(second)
        feed()
        eventually(committed, "two brokers again", 150)
        assert coordinator(cluster.bootstrap, name) != second
        cluster.restart(second)
    assert sorted(map(int, kafka.values(f"{name}-out"))) == list(range(fed))
    wire.close()
