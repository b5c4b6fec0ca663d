"""Which Python runs Spark's workers: what a user says stays, by setting or by environment."""

import os
import sys

import pytest

from onceward.pipeline import interpreter


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreter, "_ours", {})
    for name in (interpreter.VARIABLE, interpreter.OF_DRIVER):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def chosen(**given: str) -> str:
    interpreter.choose({name.replace("_", "."): value for name, value in given.items()})
    return os.environ[interpreter.VARIABLE]


def test_unless_told_otherwise_workers_run_under_the_drivers_interpreter() -> None:
    assert chosen() == sys.executable
    assert os.environ[interpreter.OF_DRIVER] == sys.executable


def test_what_the_environment_says_stays_from_session_to_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A packed environment: PYSPARK_PYTHON=./environment/bin/python."""
    monkeypatch.setenv(interpreter.VARIABLE, "./environment/bin/python")
    assert chosen() == chosen() == "./environment/bin/python"


def test_a_setting_comes_before_the_environment_and_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(spark_pyspark_python="/opt/python") == "/opt/python"
    assert chosen() == sys.executable
    monkeypatch.setenv(interpreter.VARIABLE, "mine")
    assert chosen() == "mine"
    assert chosen(spark_pyspark_python="/opt/python") == "/opt/python"


def test_an_interpreter_is_the_drivers_by_its_path_and_not_by_what_it_links_to() -> None:
    """Two virtual environments link to one interpreter and have other packages."""
    assert interpreter.is_the_drivers(sys.executable)
    assert not interpreter.is_the_drivers(os.path.realpath(sys.executable) + "-other")
    assert not interpreter.is_the_drivers("/nowhere/python")
