"""A Kafka sink that is taken out of a pipeline and brought back: said in words, on a real broker and a real Spark."""

from pathlib import Path

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import SavepointOutdated
from support.judge import Kafka
from support.runs import run


def test_a_kafka_sink_that_comes_back_goes_on_with_the_next_epoch(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """I3: it is not told that Kafka has lost data; what it missed is not in it."""
    source, target = kafka.topic(1), kafka.topic(1)
    told: list[str] = []

    def start(*, with_kafka: bool, value: str) -> None:
        kafka.feed(source, [(None, value)])
        rows = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).select("value")
        pipeline = ow.Pipeline(name, home=tmp_path / "home", source=rows).to(ow.FileSink(tmp_path / "files"))
        if with_kafka:
            pipeline.to(ow.KafkaSink(kafka.bootstrap, topic=target))
        told.clear()
        run(pipeline, report=told.append)

    start(with_kafka=True, value="a")
    start(with_kafka=False, value="b")
    assert any(
        "sink 'kafka' is no longer part of the pipeline: it keeps what it has, epochs up to 0" in it for it in told
    )
    start(with_kafka=True, value="c")
    assert any("sink 'kafka' is back: epoch 1 went without it" in it for it in told)
    start(with_kafka=True, value="d")
    assert told == []
    assert kafka.values(target) == ["a", "c", "d"]


def test_what_a_sink_held_is_known_though_it_was_out_when_a_lineage_began(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """E8: the files are taken out, the pipeline is restored without them, and they come back: no foreign lineage."""
    source, target = kafka.topic(1), kafka.topic(1)

    def pipeline(*, with_files: bool) -> ow.Pipeline:
        rows = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).select("value")
        made = ow.Pipeline(name, home=tmp_path / "home", source=rows).to(ow.KafkaSink(kafka.bootstrap, topic=target))
        return made.to(ow.FileSink(tmp_path / "files"), name="files") if with_files else made

    kafka.feed(source, [(None, "a")])
    run(pipeline(with_files=True))
    kafka.feed(source, [(None, "b")])
    place = run(pipeline(with_files=False)).savepoint()
    run(pipeline(with_files=False), from_savepoint=place)
    run(pipeline(with_files=False), from_savepoint=place)  # once more, before an epoch
    kafka.feed(source, [(None, "c")])
    told: list[str] = []
    run(pipeline(with_files=True), report=told.append)
    assert any("sink 'files' is back: epoch 1 went without it" in line for line in told), told
    kafka.feed(source, [(None, "d")])
    run(pipeline(with_files=True))
    found = pyarrow.dataset.dataset(tmp_path / "files", format="parquet", partitioning="hive").to_table()
    assert sorted(bytes(value) for value in found.column("value").to_pylist()) == [b"a", b"c", b"d"]
    assert kafka.values(target) == ["a", "b", "c", "d"]


def test_a_restore_counts_what_an_absent_sink_holds(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path
) -> None:
    """E8: when it comes back it would get the same records again."""
    source = kafka.topic(1)

    def pipeline(*, with_files: bool) -> ow.Pipeline:
        rows = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).select("value")
        made = ow.Pipeline(name, home=tmp_path / "home", source=rows).to(ow.FileSink(tmp_path / "one"), name="one")
        return made.to(ow.FileSink(tmp_path / "files"), name="files") if with_files else made

    kafka.feed(source, [(None, "a")])
    place = run(pipeline(with_files=True)).savepoint()
    kafka.feed(source, [(None, "b")])
    run(pipeline(with_files=True))
    with pytest.raises(SavepointOutdated, match=r"(?s)sink 'files' has committed epoch 1 since.*sink 'one'"):
        pipeline(with_files=False).start(from_savepoint=place)
