"""Spark's Python workers take the installed PySpark, whose modules are kept compiled, and not Spark's zip of it."""

import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from onceward import python_workers
from onceward.pipeline import session
from support.waiting import eventually


def test_a_worker_takes_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    def where(_: object) -> list[str]:
        import pyspark

        return [pyspark.__file__]

    (found,) = spark.sparkContext.parallelize([0], 1).mapPartitions(where).collect()
    assert Path(found).resolve() == Path(pyspark.__file__).resolve()


def folder_with(home: Path) -> tuple[str, list[str]]:
    """A PySpark as pip installs it, and the zips beside it."""
    zips = [home / "pyspark" / "python" / "lib" / name for name in ("pyspark.zip", "py4j-0.10-src.zip")]
    zips[0].parent.mkdir(parents=True)
    for zipped in zips:
        with zipfile.ZipFile(zipped, "w") as file:
            file.writestr(f"{zipped.name[:4]}/__init__.py", "")
    for name in ("pyspark", "py4j"):
        (home / name).mkdir(exist_ok=True)
        (home / name / "__init__.py").touch()
    return str(home), [str(zipped) for zipped in zips]


def test_the_zips_come_last_only_if_the_same_pyspark_is_installed(tmp_path: Path) -> None:
    here, zips = folder_with(tmp_path / "here")
    other, others = folder_with(tmp_path / "other")
    assert python_workers.installed_first(["", *zips, here]) == ["", here, *zips]
    assert python_workers.installed_first([*zips, other, here]) == [*zips, other, here]  # another one is found first
    assert python_workers.installed_first(zips) == zips
    assert python_workers.installed_first([*others, here]) == [*others, here]
    (tmp_path / "here" / "py4j" / "__init__.py").unlink()
    (tmp_path / "here" / "py4j").rmdir()
    assert python_workers.installed_first([*zips, here]) == [*zips, here]
    assert python_workers.installed_first(["pyspark.zip"]) == ["pyspark.zip"]


def test_workers_are_told_so_only_where_they_find_onceward(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def told(master: str, **more: str) -> str | None:
        builder = SparkSession.Builder().config("spark.master", master)
        for name, value in more.items():
            builder = builder.config(name, value)
        return session.configure(builder)._options.get("spark.python.daemon.module")

    root = str(Path(python_workers.__file__).parents[1])
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(session, "java_command", lambda: tmp_path / "bin" / "java")  # not asked for its version
    monkeypatch.setattr("onceward.pipeline.archive.options", list)
    monkeypatch.setattr(sys, "path", ["", root])
    assert told("local[2]") == "onceward.python_workers"
    assert told("local[2]", **{"spark.python.daemon.module": "mine"}) == "mine"
    assert told("spark://h:7077") is None  # executors elsewhere may get Onceward with their job, which is too late
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [root])  # the script's own folder: no worker looks there
    assert told("local[2]") is None


def test_a_worker_that_spark_has_left_says_nothing_and_one_that_fails_otherwise_does() -> None:
    """A task fails, Spark closes the connections of the others: the user reads one error."""

    def worker(error: BaseException | None) -> int:
        if error is not None:
            raise error
        return 0

    quietly = python_workers.unless_left(worker)
    assert [quietly(None), quietly(EOFError()), quietly(BrokenPipeError()), quietly(ConnectionResetError())] == [
        0,
        1,
        1,
        1,
    ]
    with pytest.raises(ZeroDivisionError):
        quietly(ZeroDivisionError())


def test_a_worker_that_goes_on_looks_for_garbage_only_among_what_is_new(spark: SparkSession) -> None:
    """Spark's daemon collects after each task: all modules of a worker, again and again, without this."""

    def looked_at(rows: Iterable[int]) -> list[tuple[int, int]]:
        import gc

        assert list(rows)  # a worker that has not read everything ends with its task
        return [(gc.get_freeze_count(), len(gc.get_objects()))]

    def once_more() -> bool:
        (now,) = spark.sparkContext.parallelize([0], 1).mapPartitions(looked_at).collect()
        seen.append(now)
        return now[0] > 0

    seen: list[tuple[int, int]] = []
    eventually(once_more, "a task in a worker that has had one before")
    kept, new = seen[-1]
    assert kept > 10_000 > new
