"""`onceward run`, as a user calls it: exit codes, JSON, clean stops."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.driver import Driver
from support.judge import Kafka
from support.waiting import eventually


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[[str], Driver]]:
    made: list[Driver] = []

    def make(text: str) -> Driver:
        file = tmp_path / "pipelines.py"
        file.write_text(text)
        made.append(Driver(file, tmp_path / "driver.log"))
        return made[-1]

    yield make
    for one in made:
        if one.process is not None and one.process.poll() is None:
            one.kill()


TWO = """
import onceward as ow

def shout(text):
    return text.upper()

def build(spark):
    from pyspark.sql import functions as sf
    loud = sf.udf(shout)
    for source, target in (({a!r}, {b!r}), ({b!r}, {c!r})):
        events = ow.read_kafka(spark, {bootstrap!r}, topics=[source])
        rows = lambda batch: batch.select("key", loud(sf.col("value").cast("string")).alias("value"))
        yield ow.Pipeline(f"to-{{target}}", home={home!r} + "/" + target, source=events).to(
            ow.KafkaSink({bootstrap!r}, topic=target), rows=rows)
"""


def test_several_pipelines_joined_by_a_topic_run_in_one_process_until_ctrl_c(
    kafka: Kafka, driver: Callable[[str], Driver], tmp_path: Path
) -> None:
    """Functions of the file reach Spark's workers, though the file is no module there."""
    a, b, c = kafka.topic(1), kafka.topic(1), kafka.topic(1)
    it = driver(TWO.format(a=a, b=b, c=c, bootstrap=kafka.bootstrap, home=str(tmp_path)))
    it.start("--json")
    kafka.feed(a, [("k", f"event {number}") for number in range(10)])
    eventually(lambda: len(kafka.values(c)) == 10, "events have passed both pipelines")
    os.killpg(it.running.pid, signal.SIGINT)  # as a terminal does: to everything in the foreground
    facts = it.result()
    assert facts["ended"] == "SIGINT"
    told: Any = facts["pipelines"]
    first, second = told
    assert (first["name"], first["rows_in"], second["name"], second["rows_in"]) == (f"to-{b}", 10, f"to-{c}", 10)
    assert second["last_epoch"] >= second["epochs"] - 1
    assert kafka.values(c) == [f"EVENT {number}" for number in range(10)]
    assert "Traceback" not in it.text()


def onceward(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "onceward", *arguments], capture_output=True, text=True, timeout=120, check=False
    )


def test_wrong_usage_exits_with_2() -> None:
    assert onceward("run").returncode == 2
    assert onceward("run", "x.py", "--once", "--trigger", "1s").returncode == 2
    assert onceward("fly").returncode == 2


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "there is no file"),
        ("x = 1", "has no function build"),
        ("def build(spark): return 7", "must return ow.Pipeline"),
        ("def build(spark): return []", "must return ow.Pipeline"),
    ],
)
def test_a_file_without_pipelines_is_refused_in_one_sentence(tmp_path: Path, text: str | None, says: str) -> None:
    file = tmp_path / "bad.py"
    if text is not None:
        file.write_text(text)
    ended = onceward("run", str(file), "--once")
    assert ended.returncode == 4  # a restart gives the same
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_missing_java_is_named(tmp_path: Path) -> None:
    """Bad input of the proof plan: Java missing."""
    file = tmp_path / "p.py"
    file.write_text("def build(spark): return []")
    environment = {**os.environ, "PATH": str(tmp_path), "JAVA_HOME": ""}
    ended = subprocess.run(
        [sys.executable, "-m", "onceward", "run", str(file)],
        capture_output=True, text=True, env=environment, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 4
    assert "Java 17" in ended.stderr
    assert json.dumps(ended.stdout) == '""'
