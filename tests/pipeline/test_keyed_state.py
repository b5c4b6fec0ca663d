"""Keyed state of one's own: transformWithState in Python, stopped, crashed and started again."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

import onceward as ow
from support import running
from support.judge import Kafka


@pytest.mark.slow
def test_state_of_ones_own_is_kept_once_for_every_event(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, crash_at: Callable[..., None]
) -> None:
    """E1: what an aborted or repeated try did to the state is undone or not done again.

    The last start takes along a folder whose epochs are all finished: Spark's notes in it name paths that are gone.
    """
    cloudpickle.register_pickle_by_value(running)  # type: ignore[no-untyped-call] # workers have no tests
    source, target = kafka.topic(2), kafka.topic(2)

    def build() -> ow.Pipeline:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).selectExpr(
            "cast(key as string) as key", "cast(cast(value as string) as long) as number"
        )
        sums = events.groupBy("key").transformWithStateInPandas(
            running.Running(), "key string, value string", "update", "none"
        )
        return ow.Pipeline(name, home=tmp_path / "home", source=sums, output_mode="update").to(
            ow.KafkaSink(kafka.bootstrap, topic=target)
        )

    for point in ("written", "decided", None, None):  # the last goes on from an epoch that is over: all is read anew
        kafka.feed(source, [("a", "1"), ("b", "10"), ("a", "1")])
        crash_at(point)
        query = build().start(trigger="once")
        if point is None:
            query.wait(120)
        else:
            with pytest.raises(Exception, match="Crash"):
                query.wait(120)
    crash_at(None)
    seen: dict[str, list[int]] = {}
    for message in kafka.read(target):
        seen.setdefault(message.key().decode(), []).append(int(message.value()))
    assert {key: (values[-1], values == sorted(set(values))) for key, values in seen.items()} == {
        "a": (8, True),
        "b": (40, True),
    }
