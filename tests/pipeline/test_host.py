"""Several pipelines of a file in one process: what befalls one, and what of it concerns the others."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.cli.failing import exit_code
from onceward.cli.output import EXIT_FAILED
from onceward.errors import HomeInUse
from onceward.pipeline import host


def pipeline(spark: SparkSession, folder: Path, name: str) -> ow.Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "a.txt").write_text(name)
    lines = spark.readStream.format("text").load(str(folder / "in"))
    return ow.Pipeline(name, home=folder / name, source=lines).to(ow.FileSink(folder / f"{name}-out", format="csv"))


def rows(folder: Path, name: str) -> int:
    return len(list((folder / f"{name}-out").rglob("*.csv")))


def test_one_that_is_in_use_is_told_by_name_and_the_others_run_on(spark: SparkSession, tmp_path: Path) -> None:
    """I4: the end of the command says it once more, by its exit code."""
    told: list[str] = []
    with pipeline(spark, tmp_path, "one").start() as held:
        held.process_all_available()
        with pytest.raises(HomeInUse) as in_use:
            host.run(
                [pipeline(spark, tmp_path, name) for name in ("one", "two", "three")],
                trigger="once",
                report=told.append,
            )
        assert held.is_active
    assert [rows(tmp_path, name) for name in ("one", "two", "three")] == [1, 1, 1]
    says = f"home {tmp_path}/one of pipeline 'one' is in use by process "
    assert says in str(in_use.value)
    assert [line for line in told if line.startswith(f"one: not started; {says}")]
    assert exit_code(in_use.value, ["run"]) == EXIT_FAILED


def test_where_all_are_in_use_nothing_runs(spark: SparkSession, tmp_path: Path) -> None:
    with pipeline(spark, tmp_path, "one").start() as held:
        with pytest.raises(HomeInUse):
            host.run([pipeline(spark, tmp_path, "one")], trigger=None, report=lambda _: None)
        assert held.is_active
