"""A restore that is refused, at whichever moment, leaves the home and the sinks as they were."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.home import LINEAGES
from onceward.errors import ConfigurationError, SavepointOutdated, SavepointUnusable
from onceward.pipeline import restores
from support import outputs
from support.judge import Kafka
from support.runs import crash, run

pytestmark = pytest.mark.slow


class Job:
    """Distinct values of a topic, into Kafka and files."""

    def __init__(self, spark: SparkSession, kafka: Kafka, name: str, folder: Path) -> None:
        self.spark, self.kafka, self.name, self.folder = spark, kafka, name, folder
        self.source = kafka.topic(1)
        self.outputs = [outputs.kafka(kafka, 10 << 20), outputs.files(folder, 10 << 20)]

    def pipeline(self) -> ow.Pipeline:
        events = ow.read_kafka(self.spark, self.kafka.bootstrap, topics=[self.source])
        rows = events.selectExpr("cast(value as string) as value").dropDuplicates(["value"])
        pipeline = ow.Pipeline(self.name, home=self.folder / "home", source=rows)
        for output in self.outputs:
            pipeline.to(eval(output.text, {"ow": ow}))
        return pipeline

    def feed(self, *values: int) -> None:
        self.kafka.feed(self.source, ((str(value), str(value)) for value in values))

    def lineages(self) -> list[str]:
        return [path.name for path in (self.folder / "home" / LINEAGES).glob("*")]

    def require(self, wanted: Counter[int]) -> None:
        for output in self.outputs:
            assert Counter(map(int, output.values())) == wanted
            assert output.leftovers() == []


@pytest.fixture
def job(spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path) -> Job:
    made = Job(spark, kafka, name, tmp_path)
    made.feed(*range(10))
    return made


def test_an_epoch_in_doubt_is_finished_before_anything_is_restored(job: Job, crash_at: Callable[..., None]) -> None:
    """E8: whether it is decided only Kafka knows; a restore would throw it away."""
    place = run(job.pipeline()).savepoint()
    job.feed(*range(5, 15))
    crash_at("marked")
    crash(job.pipeline())
    crash_at(None)
    with pytest.raises(SavepointUnusable, match=r"epoch 1 of .* is in doubt in .* Start the pipeline once without"):
        job.pipeline().start(from_savepoint=place)
    assert not (job.folder / "home" / LINEAGES).exists()
    place = run(job.pipeline()).savepoint()
    job.require(Counter(range(15)))
    job.feed(*range(10, 20))
    run(job.pipeline(), from_savepoint=place)
    job.require(Counter(range(20)))


def test_state_that_cannot_be_rewritten_leaves_no_half_of_a_lineage(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """E7: the old lineage goes on."""
    place = run(job.pipeline()).savepoint()

    def refuse(*_: Any) -> int:
        assert len(job.lineages()) == 1  # it is laid out
        raise ConfigurationError("Spark cannot rewrite its state")

    with monkeypatch.context() as patched:
        patched.setattr(restores, "rewritten", refuse)
        with pytest.raises(ConfigurationError, match="cannot rewrite"):
            job.pipeline().start(from_savepoint=place, partitions=3)
    assert job.lineages() == []
    job.feed(*range(5, 15))
    run(job.pipeline())
    job.require(Counter(range(15)))


def test_of_a_sink_without_a_memory_the_ledger_knows_what_it_has(job: Job) -> None:
    """E8: an old savepoint is refused there too; never a silent duplicate."""
    seen: list[int] = []

    def pipeline() -> ow.Pipeline:
        rows = ow.read_kafka(job.spark, job.kafka.bootstrap, topics=[job.source]).selectExpr("cast(value as string)")
        sink = ow.FunctionSink(lambda batch, _: seen.extend(int(row[0]) for row in batch.collect()), idempotent=True)
        return ow.Pipeline(job.name, home=job.folder / "home", source=rows).to(sink)

    place = run(pipeline()).savepoint()
    job.feed(*range(10, 15))
    run(pipeline())
    with pytest.raises(SavepointOutdated, match=r"sink 'function' has committed epoch 1 since: 5 records"):
        pipeline().start(from_savepoint=place)
    assert Counter(seen) == Counter(range(15))
    run(pipeline(), from_savepoint=place, new_lineage=True)
    assert Counter(seen) == Counter([*range(15), *range(10, 15)])
