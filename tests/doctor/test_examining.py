"""A pipeline of a real session on real servers is examined, and nobody is disturbed (I5)."""

from pathlib import Path

from pyspark.sql import SparkSession

import onceward as ow
from onceward.doctor import pipelines
from onceward.doctor.finding import Level
from onceward.kafka.wire import Cluster
from onceward.servers.postgres import PostgresServer
from support.judge import Kafka
from support.postgres import Database


def test_a_pipeline_is_examined_while_it_runs_and_goes_on(
    spark: SparkSession, kafka: Kafka, postgres: PostgresServer, name: str, tmp_path: Path
) -> None:
    source, target, database = kafka.topic(retention_ms="1000"), kafka.topic(), Database.new(postgres)
    kafka.feed(source, [("a", "1")])
    frame = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
    pipeline = (
        ow.Pipeline(name, home=tmp_path / "home", source=frame.selectExpr("key", "value"))
        .to(ow.KafkaSink(kafka.bootstrap, topic=target))
        .to(
            ow.PostgresSink(database.dsn(), table="counts", create=True),
            rows=lambda batch: batch.selectExpr("cast(value as string) as value"),
        )
        .to(ow.FileSink(tmp_path / "files"), rows=lambda batch: batch.selectExpr("cast(value as string) as value"))
    )
    with pipeline.start() as query:
        query.process_all_available()
        found = list(pipelines.examine(pipeline, 86_400.0))
        kafka.feed(source, [("b", "2")])
        query.process_all_available()
    assert sorted(it.value() for it in kafka.read(target)) == [b"1", b"2"]
    # A second of retention; and the tests' PostgreSQL does without fsync.
    risks = {it.about: it.says for it in found if it.level is Level.RISK}
    assert set(risks) == {f"source topic {source}", "sink postgres"}, risks
    assert "fsync" in risks["sink postgres"]
    fine = {it.about for it in found if it.level is Level.OK}
    assert {f"home {tmp_path / 'home'}", f"output topic {target}", "sink postgres", "sink file"} <= fine


def test_missing_topics_and_servers_that_are_away_are_risks(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    frame = ow.read_kafka(spark, kafka.bootstrap, topics=[kafka.topic()]).selectExpr("key", "value")
    pipeline = (
        ow.Pipeline(name, home=tmp_path / "home", source=frame)
        .to(ow.KafkaSink(kafka.bootstrap, topic="no-such-topic"))
        .to(ow.PostgresSink("host=127.0.0.1 port=1 dbname=x", table="t"))
    )
    told = {it.about: it.says for it in pipelines.examine(pipeline, 60.0) if it.level is Level.RISK}
    assert told["output topic no-such-topic"] == "it does not exist"
    assert "refused" in told["sink postgres"]


def test_a_cluster_alone(kafka: Kafka) -> None:
    found = list(pipelines.examine_cluster(Cluster(kafka.bootstrap), 86_400.0))
    assert {it.level for it in found} == {Level.OK, Level.NOTE}
    assert any("transaction.version 2" in it.says for it in found)
