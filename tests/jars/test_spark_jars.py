"""Spark's own jars are found wherever PySpark is imported from."""

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from onceward.jars.spark import spark_jars


def test_inside_pyspark_unless_spark_home_says_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    inside = spark_jars()
    assert inside is not None
    assert inside.parent.name == "pyspark"
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_jars() == tmp_path.resolve() / "jars"


def test_a_pyspark_in_a_zip_has_none_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I6: spark-submit puts one first on the path, and sets SPARK_HOME."""
    zipped = ModuleSpec("pyspark", None, is_package=True)
    zipped.submodule_search_locations = [str(tmp_path / "pyspark.zip" / "pyspark")]
    (tmp_path / "pyspark.zip").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: zipped)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert spark_jars() is None
    (tmp_path / "jars").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_jars() == tmp_path.resolve() / "jars"
