"""A Kafka sink that is taken out of a pipeline and brought back: said in words, on a real broker and a real Spark."""

from pathlib import Path

from pyspark.sql import SparkSession

import onceward as ow
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
