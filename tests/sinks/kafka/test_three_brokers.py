"""Our own transactions on three brokers, of which a leader, the coordinator and a follower are killed in turn.

The production sink, its transactor and its sender write; another client's reader is the judge.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.outcome import Outcome
from onceward.epoch.patience import Patience
from onceward.errors import FINAL
from onceward.kafka.topics import described
from onceward.kafka.wire import TRANSACTION, Cluster, Wire
from onceward.servers.broker import DevBroker
from support.judge import Kafka
from support.waiting import eventually

PARTITIONS: Final = 3
ROWS: Final = 300  # of an epoch
AWAY: Final = 2  # epochs while a broker is away, after the one in which it goes


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DevBroker]:
    with DevBroker(tmp_path / "kafka", port=0, brokers=3) as brokers:
        yield brokers


class Meanwhile:
    """A journal in which something happens once, before a try's records are written or after they are."""

    def __init__(self) -> None:
        self.before_the_write: Callable[[], object] = lambda: None
        self.before_the_decision: Callable[[], object] = lambda: None

    def open(self) -> None:
        happens, self.before_the_write = self.before_the_write, lambda: None
        happens()

    def ready(self) -> None:
        happens, self.before_the_decision = self.before_the_decision, lambda: None
        happens()

    def prepare(self, _: Any) -> None:
        raise AssertionError("Kafka is the only sink")

    def decide(self, _: Any) -> None:
        raise AssertionError("Kafka decides")


class Job:
    """Epoch after epoch through the production coordinator into a topic on all brokers, written here or by tasks."""

    def __init__(self, spark: SparkSession, bootstrap: str, name: str) -> None:
        self.spark, self.name, self.topic, self.epoch = spark, name, f"{name}-out", 0
        self.wire = Wire(Cluster(bootstrap))
        self.wire.create_topics([self.topic], PARTITIONS, replicas=3, settings={"min.insync.replicas": "2"})
        self.sink, self.journal = ow.KafkaSink(bootstrap, topic=self.topic), Meanwhile()
        self.sink.open(self.owner(1))
        self.coordinator = Coordinator(
            {"kafka": self.sink},
            is_final=lambda error: isinstance(error, FINAL),
            clock=time.monotonic,
            sleep=time.sleep,
            patience=Patience(120.0, clock=time.monotonic, sleep=time.sleep, keep_on=lambda: None),
        )

    def owner(self, term: int) -> Owner:
        return Owner(pipeline=self.name, lineage="L", term=term, guarantee=Guarantee.EXACTLY_ONCE, sink="kafka")

    def run(self, epochs: int = 1) -> None:
        for _ in range(epochs):
            first = self.epoch * ROWS
            rows = self.spark.range(first, first + ROWS, 1, 1).selectExpr(
                f"cast(id % {PARTITIONS} as int) as partition", "cast(id as string) as value"
            )
            self._carry_out({"kafka": rows})
            self.epoch += 1

    def _carry_out(self, rows: Mapping[str, DataFrame]) -> None:
        """Every other epoch is of unknown size, and goes over tasks."""
        context = EpochContext(epoch=self.epoch, input_rows=ROWS if self.epoch % 2 else None)
        self.coordinator.carry_out(context, lambda _: nullcontext(rows), self.journal, lambda _: Outcome())

    def leader(self) -> int:
        return self.wire.topics([self.topic])[self.topic][0]

    def transactions(self) -> int:
        """The broker that coordinates them, as a client finds it that knows nothing."""
        with closing(Wire(self.wire.cluster)) as fresh:
            return fresh.coordinator(self.name, TRANSACTION)

    def leads(self, node: int) -> bool:
        return node in self.wire.topics([self.topic])[self.topic]

    def is_whole(self) -> bool:
        return all(len(it.in_sync) == 3 for it in described(self.wire, self.topic).partitions)

    def close(self) -> None:
        self.sink.close()
        self.wire.close()


@pytest.mark.timeout(400)
def test_a_leader_the_coordinator_and_a_follower_are_killed_and_every_record_is_there_once_and_in_order(
    spark: SparkSession, cluster: DevBroker, name: str
) -> None:
    """C8, C1: with the epoch's transaction under way, and again while the broker is away."""
    with closing(Job(spark, cluster.bootstrap, name)) as job:
        job.run(2)

        def away(node: int) -> None:
            """The epoch in which it goes, others without it, and it comes back."""
            job.run(1 + AWAY)
            assert cluster.state(node) == "stopped"
            cluster.restart(node)
            eventually(job.is_whole, f"broker {node} has caught up")
            job.run()

        leader = job.leader()
        job.journal.before_the_write = lambda: cluster.kill(leader)
        away(leader)
        assert job.leader() != leader

        coordinator = job.transactions()
        job.journal.before_the_decision = lambda: cluster.kill(coordinator)
        away(coordinator)
        assert job.transactions() != coordinator

        follower = coordinator  # it leads nothing any more, and coordinates nothing
        assert not job.leads(follower)
        job.journal.before_the_write = lambda: cluster.kill(follower)
        away(follower)

        with closing(ow.KafkaSink(cluster.bootstrap, topic=job.topic)) as heir:
            heir.open(job.owner(2))
            last = heir.last_commit()
            assert last is not None
            assert last.epoch == job.epoch - 1
        with closing(Kafka(cluster.bootstrap, job.wire)) as judge:
            found: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
            for record in judge.read(job.topic):
                found[record.partition()].append(int(record.value()))
        written = range(job.epoch * ROWS)
        assert found == {number: list(written[number::PARTITIONS]) for number in range(PARTITIONS)}
