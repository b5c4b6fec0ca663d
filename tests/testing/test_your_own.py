"""Requirement B6: the sink of docs/sinks/your-own.md is short, complete, and passes the kit as the page says."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onceward.testing import SinkConformance, SinkUnderTest
from support.page_files import DOCS, files_of

PAGE = DOCS / "sinks" / "your-own.md"


class TestThePagesSink(SinkConformance):
    """The very class of the page, in the tests' own Spark."""

    @pytest.fixture
    def under_test(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SinkUnderTest:
        for name, text in files_of(PAGE).items():
            (tmp_path / name).write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.delitem(sys.modules, "sqlite_sink", raising=False)
        page, path = runpy.run_path(str(tmp_path / "test_sqlite_sink.py")), tmp_path / "events.db"
        return SinkUnderTest(
            make=lambda: page["SqliteSink"](path),
            visible=lambda: page["ask"](path, "select id from events"),
            leftovers=lambda: page["ask"](path, "select epoch from staged"),
            backup=lambda: page["backup"](path),
        )


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_sink_of_the_page_passes_the_kit(tmp_path: Path) -> None:
    for name, text in files_of(PAGE).items():
        (tmp_path / name).write_text(text)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_sqlite_sink.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=540,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert int(re.findall(r"(\d+) passed", run.stdout)[-1]) >= 50


def test_the_pages_pipeline_can_be_built(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in files_of(PAGE).items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    built = runpy.run_path(str(tmp_path / "pipeline.py"))["build"](spark)
    assert list(built.sinks) == ["sqlite"]


def test_the_sink_of_the_page_is_short() -> None:
    """Thirty lines for the verbs, and a few for its tables."""
    body = files_of(PAGE)["sqlite_sink.py"].partition("class SqliteSink")[2]
    code = [line for line in body.splitlines() if line.strip()]
    assert len(code) < 50
