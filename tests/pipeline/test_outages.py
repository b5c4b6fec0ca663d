"""A passing outage of a sink ends nothing: it is waited for, said, and the pipeline goes on by itself."""

import logging
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
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
    assert [line for line in caplog.messages if line.startswith("waiting for sink 'postgres': ")]
    assert [line for line in caplog.messages if line.startswith("sink 'postgres' is back after ")]

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
