"""Whether executors can run Onceward's tasks: what is asked, and what is said of those that cannot."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward.errors import WorkerUnusable
from onceward.pipeline import worker_look, workers
from onceward.pipeline.workers import Executor

if TYPE_CHECKING:
    from pyspark import SparkContext


@pytest.mark.parametrize("master", ["local[2]", "local", "local-cluster[2,1,1024]"])
def test_with_a_local_master_nobody_is_asked(master: str) -> None:
    """Whoever looks further than these two fields fails here."""
    workers.require_workers(cast("SparkContext", SimpleNamespace(master=master, pythonExec=sys.executable)), [])


def test_an_interpreter_says_what_it_lacks() -> None:
    assert worker_look.missing(workers.MODULES) == ""
    assert f"{sys.executable} (Python 3." in worker_look.missing(("json", "onceward.nothing"))
    assert worker_look.missing(("nothing.at.all",)).endswith("has no module 'nothing'")


def test_an_import_that_fails_otherwise_is_told_with_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("raise OSError('libarrow.so: cannot open')")
    monkeypatch.syspath_prepend(tmp_path)
    assert worker_look.missing(("broken_module",)).endswith(
        "cannot import broken_module: OSError: libarrow.so: cannot open"
    )


def test_an_executor_that_does_not_see_the_drivers_file_says_so(tmp_path: Path) -> None:
    """J1: a home that holds state is shared by all machines, or refused."""
    with workers._probe(tmp_path / "not" / "yet") as probe:
        assert probe is not None
        assert Path(probe).parent == tmp_path
        assert worker_look.missing((), probe) == ""
    assert worker_look.missing((), probe) == f"its {tmp_path} is not the driver's, and the query keeps its state there"
    for nowhere in ("hdfs://h/home", "memory:", None):
        with workers._probe(nowhere) as probe:
            assert probe is None


def task(executor: str, index: int, status: str, error: str | None = None) -> Any:
    said = SimpleNamespace(isDefined=lambda: error is not None, get=lambda: error)
    facts = {"executorId": executor, "host": f"h{executor}", "index": index, "status": status, "errorMessage": said}
    return SimpleNamespace(**{name: lambda value=value: value for name, value in facts.items()})


def test_a_failed_task_tells_of_the_executor_where_it_ran() -> None:
    tasks = [
        task("1", 0, "FAILED", 'java.io.IOException: Cannot run program "/x/python"\n\tat java.base/Process'),
        task("2", 0, "SUCCESS"),  # where Spark tried it next
        task("2", 1, "SUCCESS"),
    ]
    broken = {Executor("1", "h1"): 'java.io.IOException: Cannot run program "/x/python"'}
    assert workers._by_executor(tasks, ["", ""]) == {**broken, Executor("2", "h2"): ""}
    assert workers._by_executor([task("1", 0, "SUCCESS")], ["no pyarrow"]) == {Executor("1", "h1"): "no pyarrow"}


def test_whose_task_ended_with_the_job_of_another_has_not_answered() -> None:
    """Neither is its answer known, nor has it failed: it is asked again."""
    tasks = [task("1", 0, "FAILED", "no"), task("2", 1, "KILLED", "Stage cancelled"), task("3", 2, "SUCCESS")]
    assert workers._by_executor(tasks, []) == {Executor("1", "h1"): "no"}


def test_of_a_traceback_the_last_line_is_told() -> None:
    error = "org.PythonException: Traceback (most recent call last):\n  File x\nMISMATCH: 3.9\n\n\tat org"
    assert workers._last_words(error) == "MISMATCH: 3.9"
    assert workers._last_words("") == "it failed without a word"


def test_the_message_names_hosts_and_ways_out() -> None:
    said = workers._explained({Executor("2", "10.0.0.7"): "has no module 'onceward'"}, 3, "python3")
    assert said.startswith(
        "1 of 3 Spark executors cannot run Onceward's tasks under 'python3':\n  10.0.0.7 (executor 2): "
    )
    for word in ("Install onceward", "spark.pyspark.python", "PYSPARK_PYTHON", "spark.archives", "docs/deploy"):
        assert word in said


def test_an_interpreter_of_ones_own_is_asked_at_the_start_on_a_local_master_too(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """J1, I3: found before anything is read or written, and named."""
    (tmp_path / "in").mkdir()
    source = spark.readStream.format("text").load(str(tmp_path / "in"))
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=source).to(ow.FileSink(tmp_path / "out"))
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    with pytest.raises(
        WorkerUnusable, match=r"1 of 1 Spark executors .* under '/nowhere/python':\n.*Cannot run program"
    ):
        pipeline.start(trigger="once")
    assert not (tmp_path / "home").exists()
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.base_prefix}/bin/python3 -S "$@"\n')
    bare.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(bare))
    monkeypatch.setitem(spark.sparkContext.environment, "PYTHONPATH", "")
    with pytest.raises(WorkerUnusable, match=r"(has no module|No module named) '?\w+"):
        pipeline.start(trigger="once")
