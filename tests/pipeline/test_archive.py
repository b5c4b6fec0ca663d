"""Spark's classes from an archive: used where it is, done without where it is not or does not fit."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.cli.jars import _archived
from onceward.errors import OncewardError
from onceward.jars import classes
from onceward.pipeline import archive
from onceward.servers.broker import archive as archive_of_broker


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache without any archive."""
    monkeypatch.setattr(classes, "cache_root", lambda: tmp_path)
    return tmp_path


def java_options(builder: SparkSession.Builder) -> str:
    return str(ow.configure(builder)._options["spark.driver.extraJavaOptions"])


def test_a_session_takes_the_archive_as_soon_as_there_is_one(cache: Path) -> None:
    assert archive.options() == []
    assert "SharedArchiveFile" not in java_options(
        SparkSession.builder.config("spark.driver.extraJavaOptions", "-Dx=1")
    )
    archive.archive().parent.mkdir()
    archive.archive().touch()
    said = java_options(SparkSession.builder.config("spark.driver.extraJavaOptions", '"-Dx=a  b"'))
    assert said.startswith('"-Dx=a  b" ')
    assert f"-XX:SharedArchiveFile={archive.archive()} -Xshare:auto" in said


def test_an_archive_of_ones_own_stays(cache: Path) -> None:
    archive.archive().parent.mkdir()
    archive.archive().touch()
    said = java_options(SparkSession.builder.config("spark.driver.extraJavaOptions", "-XX:SharedArchiveFile=mine.jsa"))
    assert said.count("SharedArchiveFile") == 1


def test_the_archive_of_this_spark_is_kept_and_that_of_a_deleted_one_is_not(cache: Path) -> None:
    folder = cache / "classes"
    folder.mkdir()
    for name, jars in (("here", cache), ("gone", cache / "no-longer")):
        (folder / f"{name}.txt").write_text(str(jars))
        (folder / f"{name}.jsa").touch()
    classes.tidy_up(folder)
    assert {file.name for file in folder.iterdir()} == {"here.txt", "here.jsa"}


def test_setup_has_made_one_and_the_jvm_does_without_one_that_is_broken(tmp_path: Path) -> None:
    assert archive.archive().exists(), "`onceward jars fetch` makes it"
    assert archive_of_broker.archive().exists(), "and the broker's"
    broken = tmp_path / "broken.jsa"
    broken.write_text("no archive at all")
    program = (
        "import onceward as ow\n"
        f"spark = ow.session(master='local[1]', spark_driver_extraJavaOptions='-XX:SharedArchiveFile={broken}')\n"
        "print(spark.range(3).count())\nspark.stop()"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "3"


def test_without_an_archive_the_jars_are_fetched_all_the_same(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a machine that is too busy to make one in time."""

    def too_slow(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("java", 300)

    place = archive.archive()  # asks Java for its version
    monkeypatch.setattr(archive, "archive", lambda: place)
    monkeypatch.setattr(subprocess, "run", too_slow)
    with pytest.raises(OncewardError, match="did not start and end within 300 s"):
        archive.make(lambda _: None)
    assert _archived(archive.make) is None
    assert "Starts take longer without it" in capsys.readouterr().err
    assert not place.exists()
