"""`onceward run --from`: copies, refusals with their exit codes, and what a person may say knowingly.

The commands run in this process, on the Spark that the tests share.
"""

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onceward.cli.main import main
from onceward.epoch.home import LINEAGES, Home
from onceward.pipeline import session
from onceward.servers.postgres import PostgresServer
from support import outputs
from support.judge import Kafka
from support.postgres import Database

FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    unique = events.selectExpr("cast(value as string) as value").dropDuplicates(["value"])
    return ow.Pipeline({name!r}, home={home!r}, source=unique).to({kafka}).to({postgres})
"""
Command = Callable[..., tuple[int, str]]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`onceward` with these arguments: its exit code, and what it says on standard error."""

    def call(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.setattr(sys, "argv", ["onceward", *map(str, arguments)])
        try:
            main()
        except SystemExit as ended:
            return int(ended.code or 0), capsys.readouterr().err
        return 0, capsys.readouterr().err

    return call


class Job:
    """A pipeline's file, its input and its two outputs."""

    def __init__(self, kafka: Kafka, postgres: PostgresServer, name: str, folder: Path, command: Command) -> None:
        self.kafka, self.name, self.folder, self.command = kafka, name, folder, command
        self.source, self.home, self.database = kafka.topic(1), folder / "home", Database.new(postgres)
        self.outputs = {
            "kafka": outputs.kafka(kafka, 10 << 20),
            "postgres": outputs.postgres(self.database.dsn(), 10 << 20),
        }
        self.file = self.write(name)

    def write(self, name: str) -> Path:
        texts = {kind: output.text for kind, output in self.outputs.items()}
        file = self.folder / f"{name}.py"
        file.write_text(
            FILE.format(bootstrap=self.kafka.bootstrap, source=self.source, name=name, home=str(self.home), **texts)
        )
        return file

    def run(self, *values: int, said: tuple[object, ...] = ()) -> str:
        """One epoch with these events; what was told."""
        self.kafka.feed(self.source, ((str(value), str(value)) for value in values))
        code, told = self.command("run", self.file, "--once", *said)
        assert code == 0, told
        return told

    def refused(self, *said: object) -> str:
        """The error; nothing has changed."""
        before = self.seen(), Home.at(self.home).deed()
        code, told = self.command("run", self.file, "--once", *said)
        assert code == 4
        assert (self.seen(), Home.at(self.home).deed()) == before
        assert not (self.home / LINEAGES).exists()
        return told

    def save(self) -> Path:
        place = self.folder / "saved"
        code, told = self.command("savepoint", "create", self.home, "--to", place)
        assert code == 0, told
        return place

    def seen(self) -> dict[str, Counter[int]]:
        return {kind: Counter(map(int, output.values())) for kind, output in self.outputs.items()}

    def require(self, wanted: Counter[int]) -> None:
        assert self.seen() == {"kafka": wanted, "postgres": wanted}


@pytest.fixture
def job(
    spark: SparkSession,
    kafka: Kafka,
    postgres: PostgresServer,
    name: str,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> Job:
    monkeypatch.setattr(session, "session", lambda *_, **__: spark)
    monkeypatch.setattr(session, "end", lambda _: None)
    return Job(kafka, postgres, name, tmp_path, command)


def test_a_copy_has_a_home_of_its_own_and_is_told_which_outputs_it_shares(job: Job) -> None:
    """E6: the file keeps its name; sharing the outputs is the user's business, and said."""
    job.run(*range(10))
    place, copy = job.save(), f"{job.name}-copy"
    told = job.run(*range(5, 15), said=("--from", place, "--as", copy))
    assert f"{copy} is a copy of {job.name} and writes to the same outputs as that one: kafka (Kafka at" in told
    assert "; postgres (PostgreSQL at" in told
    job.require(Counter(range(15)))
    deed = Home.at(job.folder / copy).deed()
    assert deed is not None
    assert (deed.pipeline, deed.origin.pipeline if deed.origin else "") == (copy, job.name)
    assert sorted(job.database.column("SELECT pipeline FROM onceward.markers")) == [job.name, copy]
    assert "same outputs" not in job.run()  # the original goes on from where it was
    job.require(Counter(range(15)) + Counter(range(10, 15)))


def test_a_savepoint_of_another_pipeline_and_options_without_one_are_refused(job: Job, command: Command) -> None:
    """E6."""
    job.run(*range(10))
    place = job.save()
    job.file = job.write("another")
    told = job.refused("--from", place)
    assert f"was taken of pipeline '{job.name}'; the file has 'another'" in told
    assert "--as NAME" in told
    assert "there is no savepoint" in job.refused("--from", job.folder / "nowhere")
    for option in (("--partitions", "3"), ("--as", "x"), ("--new-lineage",)):
        code, told = command("run", job.file, *option)
        assert code == 2
        assert "--from" in told


def test_an_old_savepoint_is_restored_knowingly_and_every_sink_takes_its_epochs_as_new(job: Job) -> None:
    """E8: refused with epochs, positions and records of each sink; then nothing is skipped."""
    job.run(*range(10))
    place = job.save()
    job.run(*range(10, 17))
    told = job.refused("--from", place)
    for sink in ("kafka", "postgres"):
        assert f"sink '{sink}' has committed epoch 1 since: 7 records" in told
    assert f"made of {job.source}-0 from 10 to 17" in told
    assert "--new-lineage" in told
    job.run(said=("--from", place, "--new-lineage", "--partitions", 3))
    twice = Counter(range(17)) + Counter(range(10, 17))
    job.require(twice)
    job.run(*range(15, 20))
    job.require(twice + Counter(range(17, 20)))


def test_a_database_that_was_set_back_behind_the_savepoint_is_told(job: Job) -> None:
    """E8: a savepoint that is newer than a sink."""
    job.run(*range(10))
    table = job.outputs["postgres"].text.partition("table='")[2].partition("'")[0]
    set_back = job.database.backup(table, "onceward.markers")
    job.run(*range(10, 17))
    place = job.save()
    set_back()
    told = job.refused("--from", place)
    assert "sink 'postgres' holds epochs only up to 0, the savepoint is newer: epochs 1 to 1 are missing there" in told
    assert "sink 'kafka'" not in told
    job.run(*range(17, 20), said=("--from", place, "--new-lineage"))
    assert job.seen() == {"kafka": Counter(range(20)), "postgres": Counter([*range(10), *range(17, 20)])}
