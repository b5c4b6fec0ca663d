"""What a soft crash leaves behind is what a kill leaves behind; else the tests that use it prove less."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from support import outputs
from support.crashes import Died
from support.judge import Kafka


@pytest.fixture
def crashed_at(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, crash_at: Callable[[str | None], None]
) -> Callable[[str], outputs.Output]:
    source, output = kafka.topic(1), outputs.files(tmp_path, 10 << 20)
    kafka.feed(source, [("a", "1")])

    def crash(point: str) -> outputs.Output:
        events = ow.read_kafka(spark, kafka.bootstrap, topics=[source]).selectExpr("cast(value as string) as value")
        pipeline = ow.Pipeline(name, home=tmp_path / "home", source=events).to(eval(output.text, {"ow": ow}))
        crash_at(point)
        with pytest.raises(Exception, match=rf"\b({Died.__name__}|Crash): Crash at {point}|^Crash at {point}"):
            pipeline.start(trigger="once").wait(120)
        return output

    return crash


def test_what_was_staged_stays_as_nobody_lives_to_abort_it(crashed_at: Callable[[str], outputs.Output]) -> None:
    """B4."""
    output = crashed_at("voted")
    assert output.leftovers() != []
    assert output.values() == []


def test_what_dies_in_the_background_takes_the_whole_driver_with_it(
    crashed_at: Callable[[str], outputs.Output], tmp_path: Path
) -> None:
    """A4: the ledger has the epoch, and Spark's commit log does not."""
    assert crashed_at("recorded").values() == ["1"]
    assert len(list((tmp_path / "home" / "ledger").glob("000000000000-*.json"))) == 1
    assert list((tmp_path / "home").rglob("commits/0")) == []  # wherever Spark keeps its log
