"""A passing outage of a sink or a source ends nothing: it is waited for, said, and the pipeline goes on by itself."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import OutageTooLong, TopicUnusable
from onceward.kafka.wire import Cluster, Wire
from onceward.servers.broker import DevBroker
from onceward.servers.postgres import PostgresServer
from support.judge import Kafka
from support.postgres import Database, away
from support.waiting import eventually

LONG_S = 12.0  # six tries took ten seconds: this is longer


@pytest.mark.slow
def test_postgresql_away_for_longer_than_six_tries_is_waited_for(
    spark: SparkSession,
    kafka: Kafka,
    postgres: PostgresServer,
    name: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """I5: while it runs, and at a start; exact afterwards."""
    database, source = Database.new(postgres), kafka.topic(1)
    events = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).selectExpr("cast(value as string) as value")

    def pipeline(patience: str = "10min") -> ow.Pipeline:
        sink = ow.PostgresSink(database.dsn(), table="t", create=True)
        return ow.Pipeline(name, home=tmp_path / "home", source=events, patience=patience).to(sink)

    def rows() -> list[str]:
        return sorted(database.column("SELECT value FROM t"))

    caplog.set_level(logging.WARNING, "onceward")
    with pipeline().start(trigger="100ms") as query:
        kafka.feed(source, [("k", "before")])
        eventually(lambda: query.epochs_committed == 1, "the first epoch")
        with away(postgres):
            kafka.feed(source, [("k", "meanwhile")])
            eventually(lambda: query.sight().waiting, "it says that it waits")
            began = time.monotonic()
            eventually(lambda: time.monotonic() - began > LONG_S or not query.is_active, "longer than six tries", 60)
            assert query.is_active
            assert "sink 'postgres'" in query.sight().waiting
        eventually(lambda: query.epochs_committed == 2, "it goes on by itself")
        assert query.sight().waiting == ""
    assert rows() == ["before", "meanwhile"]
    begins, ends = "waiting for sink 'postgres': ", "sink 'postgres' is back after "
    assert [line.startswith(begins) for line in caplog.messages] == [True, False], caplog.messages
    assert caplog.messages[-1].startswith(ends)
    caplog.clear()

    kafka.feed(source, [("k", "later")])
    postgres.stop()
    try:
        asked: list[float] = []

        def stop_after_a_while() -> bool:
            asked.append(time.monotonic())
            return asked[-1] - asked[0] > 1

        with pytest.raises(Exception, match="asked to stop while it waited"):
            pipeline().start(trigger="once", asked_to_stop=stop_after_a_while)
    finally:
        postgres.start()
    pipeline().start(trigger="once").wait()
    assert rows() == ["before", "later", "meanwhile"]


class TestKafka:
    """What is said of a Kafka that does not answer, and of one that does: each is what it is called."""

    @pytest.fixture
    def own(self, tmp_path: Path) -> Iterator[DevBroker]:
        with DevBroker(tmp_path / "kafka", port=0) as broker:
            yield broker

    @pytest.fixture
    def said(self, caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
        caplog.set_level(logging.WARNING, "onceward")

        def said() -> list[str]:
            ours = [it.getMessage() for it in caplog.records if it.name.startswith("onceward")]
            return [line.partition(":")[0].partition(" after")[0] for line in ours]

        return said

    def start(self, spark: SparkSession, broker: str, home: Path, name: str, topic: str = "in") -> ow.Query:
        events = ow.read_kafka(spark, broker, topics=[topic]).selectExpr("upper(value) as value")
        return ow.Pipeline(name, home=home, source=events, patience="4s").to(ow.KafkaSink(broker, topic="out")).start()

    def test_nobody_there_is_not_said_to_be_back_when_patience_ends(
        self, spark: SparkSession, name: str, tmp_path: Path, said: Callable[[], list[str]]
    ) -> None:
        """I4."""
        with pytest.raises(OutageTooLong, match=r"the source's Kafka was waited for 4 s .*127\.0\.0\.1:1: "):
            self.start(spark, "127.0.0.1:1", tmp_path / "home", name)
        assert said() == ["waiting for the source's Kafka"]

    def test_a_stop_while_it_runs_is_said_when_it_begins_and_when_it_is_over(
        self, spark: SparkSession, own: DevBroker, name: str, tmp_path: Path, said: Callable[[], list[str]]
    ) -> None:
        """I5: Spark waits by itself, without a word. A topic that is missing, though, is waited for by nobody."""
        with pytest.raises(TopicUnusable, match="source topic 'in' does not exist"):
            self.start(spark, own.bootstrap, tmp_path / "home", name)
        assert said() == []
        wire = Wire(Cluster(own.bootstrap))
        wire.create_topics(["in", "out"], 1)
        wire.close()
        with self.start(spark, own.bootstrap, tmp_path / "home", name) as query:
            own.stop()
            eventually(lambda: query.sight().waiting, "it is shown", 60)
            own.start()
            eventually(lambda: not query.sight().waiting, "it is over", 60)
            who = "the source's Kafka" if "source" in said()[0] else "sink 'kafka'"  # whoever has noticed first
            assert said() == [f"waiting for {who}", f"{who} is back"]
            producer = Producer({"bootstrap.servers": own.bootstrap})
            producer.produce("in", b"x")
            producer.flush()
            eventually(lambda: query.epochs_committed == 1, "it goes on", 120)
        own.stop()
        with pytest.raises(OutageTooLong, match=r"the source's Kafka was waited for 4 s"):
            self.start(spark, own.bootstrap, tmp_path / "home", name)
        assert said()[2:] == ["waiting for the source's Kafka"]
