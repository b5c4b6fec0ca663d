"""A restore that is refused, at whichever moment, leaves the home and the sinks as they were."""

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.epoch.home import LINEAGES
from onceward.epoch.sealed import seal
from onceward.epoch.storage import LocalStorage
from onceward.errors import ConfigurationError, SavepointOutdated, SavepointUnusable
from onceward.pipeline import restores
from onceward.pipeline.plan_classes import require_known_classes
from onceward.savepoint.manifest import CHECKPOINT, FILE, FileFacts, load
from onceward.savepoint.place import Place
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
    with pytest.raises(
        SavepointUnusable, match=r"epoch 1 of .* is in doubt in .* Finish it with one start of the pipeline as it is"
    ):
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


@pytest.mark.parametrize("setting", ["providerClass", "compression.codec"])
def test_a_savepoint_names_no_class_that_is_loaded(job: Job, setting: str) -> None:
    """J4: Spark loads and runs what a plan names, and a savepoint, whose checksums have no key, may be a stranger's."""
    place = Path(run(job.pipeline()).savepoint())
    forge(place, f"spark.sql.streaming.stateStore.{setting}", "com.example.Evil")
    says = rf"says spark.sql.streaming.stateStore.{setting}=com.example.Evil: a class, which Spark would load"
    with pytest.raises(SavepointUnusable, match=says):
        job.pipeline().start(from_savepoint=place)
    assert job.lineages() == []
    with pytest.raises(SavepointUnusable, match=says):
        ow.state(place, job.spark)
    job.spark.conf.set(f"spark.sql.streaming.stateStore.{setting}", "com.example.Evil")
    try:
        require_known_classes(job.spark, LocalStorage(place), CHECKPOINT, "it")  # the session names it itself
    finally:
        job.spark.conf.set(f"spark.sql.streaming.stateStore.{setting}", SETTINGS.get(setting, "lz4"))


SETTINGS = {"providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}


def forge(place: Path, setting: str, value: str) -> None:
    """Every plan of a savepoint, so that it passes its own checksums."""
    found = load(Place.at(place))
    files = dict(found.files)
    for name in [it for it in files if it.startswith(f"{CHECKPOINT}/offsets/")]:
        lines = (place / name).read_text().splitlines()
        metadata = json.loads(lines[1])
        metadata["conf"][setting] = value
        lines[1] = json.dumps(metadata)
        data = "\n".join(lines).encode()
        (place / name).write_bytes(data)
        files[name] = FileFacts(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    (place / FILE).write_bytes(seal(msgspec.structs.replace(found, files=files)))
