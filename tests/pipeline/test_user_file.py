"""A user's file: what is told before Spark starts, and what its functions find in workers."""

import os
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from onceward.errors import ConfigurationError, PipelineFileError
from onceward.pipeline import shipping, user_file

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def file_of(folder: Path, text: str, name: str = "job.py") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return folder / name


def test_a_file_runs_when_it_is_given_a_session_and_not_before(tmp_path: Path) -> None:
    """I6: a decorator at its top may need one."""
    load = user_file.load(file_of(tmp_path, "raise RuntimeError('it ran')"))
    with pytest.raises(RuntimeError, match="it ran"):
        load(cast("SparkSession", SimpleNamespace(sparkContext=context("local[1]"))))


@pytest.mark.parametrize(
    ("text", "says"),
    [("def build(spark)\n  pass", r"job\.py, line 1: SyntaxError: expected ':'"), ("\0", "is no Python: .*null bytes")],
)
def test_what_is_no_python_is_told_without_starting_spark(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(PipelineFileError, match=says):
        user_file.load(file_of(tmp_path, text))


def test_a_missing_file_is_told_without_starting_spark(tmp_path: Path) -> None:
    with pytest.raises(PipelineFileError, match="there is no file"):
        user_file.load(tmp_path / "nothing.py")


@pytest.mark.parametrize("hiding", ["kafka.py", "numpy/__init__.py"])
def test_a_module_that_would_hide_a_package_of_onceward_is_named(tmp_path: Path, hiding: str) -> None:
    """`kafka.py` is what many call their first file."""
    (tmp_path / hiding).parent.mkdir(exist_ok=True)
    file = file_of(tmp_path, "")
    (tmp_path / hiding).write_text("")
    with pytest.raises(PipelineFileError, match=rf"{hiding} would be imported in place of the package .*: rename it"):
        user_file.load(file)


def context(master: str) -> Any:
    """Of a session, as far as shipping looks at it."""
    added: list[str] = []
    return SimpleNamespace(master=master, environment={}, added=added, addPyFile=added.append)


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_workers_on_this_machine_find_the_files_folder_by_its_path(tmp_path: Path, master: str) -> None:
    it = context(master)
    it.environment["PYTHONPATH"] = "/mine"
    shipping.make_importable(tmp_path, cast("SparkContext", it))
    shipping.make_importable(tmp_path, cast("SparkContext", it))
    assert it.environment["PYTHONPATH"] == f"{tmp_path}:/mine"
    assert it.added == []


def test_on_a_cluster_modules_and_packages_are_shipped_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    for name in ("job.py", "beside.py", "kit/__init__.py", "kit/deep/words.py", "kit/words.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    for name in ("data/home/ledger.json", "kit/__pycache__/x.pyc", "notes.txt", "venv/lib/x.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
    it = context("spark://h:7077")
    shipping.make_importable(folder, cast("SparkContext", it))
    (zipped,) = it.added
    names = sorted(zipfile.ZipFile(zipped).namelist())
    assert names == ["beside.py", "job.py", "kit/__init__.py", "kit/deep/words.py", "kit/words.txt"]
    assert it.environment == {}


def test_files_that_are_named_are_added_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    it = context("local")
    shipping.add([str(tmp_path / "a.py"), "hdfs://h/b.zip"], cast("SparkContext", it))
    assert it.added == [str(tmp_path / "a.py"), "hdfs://h/b.zip"]
    with pytest.raises(ConfigurationError, match=r"--py-files names nothing\.zip"):
        shipping.add(["nothing.zip"], cast("SparkContext", it))


def test_modules_beside_the_file_are_importable_in_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    name = f"beside_{tmp_path.name.replace('-', '_')}"
    file_of(tmp_path, "X = 7", f"{name}.py")
    module = user_file.load_module(file_of(tmp_path, f"import {name}\nfound = {name}.X"))
    assert module.found == 7


def test_a_file_that_was_changed_within_a_second_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python compares a file's second and length with those of its compiled code; a mended typo keeps it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for topic in ("clikcs", "clicks"):
        file = file_of(tmp_path, f"topic = '{topic}'")
        os.utime(file, (1, 1))
        assert user_file.load_module(file).topic == topic
