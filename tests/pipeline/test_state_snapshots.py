"""Spark can copy a snapshot of its state into a pipeline's checkpoint; without one every start replays all changes."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import ConfigurationError
from onceward.pipeline.session import require_usable
from support.home import checkpoint_of
from support.judge import Kafka

CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"


@pytest.fixture
def a_snapshot_at_each_epoch(spark: SparkSession) -> Iterator[None]:
    """Usually a thread takes one now and then. Without a changelog there is one per epoch."""
    before = spark.conf.get(CHANGELOG)
    spark.conf.set(CHANGELOG, "false")
    yield
    spark.conf.set(CHANGELOG, before or "true")


@pytest.mark.usefixtures("a_snapshot_at_each_epoch")
def test_state_is_restored_from_snapshots(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> None:
    """E1: three starts, each with what the last one left."""
    source, target, home = kafka.topic(1), kafka.topic(1), tmp_path / "home"
    for _ in range(3):
        kafka.feed(source, ((f"k{i % 7}", "") for i in range(70)))
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source])
        ow.Pipeline(name, home=home, source=events.groupBy("key").count(), output_mode="update").to(
            ow.KafkaSink(kafka.bootstrap, topic=target),
            rows=lambda batch: batch.selectExpr("key", "cast(count as string) as value"),
        ).start(trigger="once").wait(120)
    last = {message.key(): int(message.value()) for message in kafka.read(target)}
    assert last == Counter(f"k{i % 7}".encode() for i in range(210))
    state = checkpoint_of(home) / "state"
    assert list(state.rglob("*.zip"))
    assert list(state.rglob("*.sst"))
    assert not list(home.rglob("*.crc"))


def test_a_session_whose_local_files_allow_no_snapshot_is_refused(spark: SparkSession) -> None:
    conf = cast("Any", spark)._jsc.hadoopConfiguration()
    raw = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
    for key, value in raw.items():
        conf.set(key, value)
    try:
        with pytest.raises(ConfigurationError, match=r"spark\.hadoop\.fs\.file\.impl .* Remove the setting"):
            require_usable(spark)
    finally:
        for key in raw:
            conf.unset(key)
    require_usable(spark)
