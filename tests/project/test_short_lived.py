"""What tests tell the processes that they start, and that a driver without it can be had."""

import os

import pytest

from support import short_lived


def test_what_the_user_has_set_stays_and_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dmine=1")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf spark.x=y pyspark-shell")
    for _ in range(2):  # a worker of pytest-xdist has its parent's environment
        short_lived.settle()
        assert os.environ["JAVA_TOOL_OPTIONS"] == f"{short_lived.JVM} -Dmine=1"
        assert os.environ["PYSPARK_SUBMIT_ARGS"] == f"{short_lived.SPARK} --conf spark.x=y pyspark-shell"
    shipped = short_lived.as_shipped()
    assert shipped["JAVA_TOOL_OPTIONS"] == "-Dmine=1"
    assert shipped["PYSPARK_SUBMIT_ARGS"] == "--conf spark.x=y pyspark-shell"


def test_as_shipped_nothing_is_left_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in short_lived.OPTIONS:
        monkeypatch.delenv(name, raising=False)
    short_lived.settle()
    assert short_lived.OPTIONS.keys() <= os.environ.keys()
    assert not short_lived.OPTIONS.keys() & short_lived.as_shipped().keys()
