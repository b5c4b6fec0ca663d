"""`onceward run`, as a user calls it: exit codes, JSON, clean stops."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onceward import processes
from support.driver import Driver
from support.home import checkpoint_of
from support.judge import Kafka
from support.short_lived import as_shipped
from support.waiting import eventually

README = Path(__file__).parents[2] / "README.md"


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


def readme_pipeline(kafka: Kafka, home: Path, source: str, target: str) -> str:
    """The pipeline that the README shows, on this broker, with topics of the test's own."""
    (text,) = re.findall(r"```python\n(# clicks.py\n.*?)```", README.read_text("utf-8"), re.DOTALL)
    return (
        text.replace("localhost:9092", kafka.bootstrap)
        .replace("data/click-counts", str(home))
        .replace('"clicks"', repr(source))
        .replace('"counts"', repr(target))
    )


def test_the_readmes_pipeline_runs_once_and_stops_cleanly_at_sigterm(
    kafka: Kafka, driver: Callable[[str], Driver], tmp_path: Path
) -> None:
    source, target = kafka.topic(2), kafka.topic(2)
    kafka.feed(source, [("a", "1"), ("b", "2"), ("a", "3")])
    it = driver(readme_pipeline(kafka, tmp_path / "home", source, target))
    it.environment = as_shipped()  # compiled, collected and reported on as a user's driver is
    facts = it.start("--once", "--json").result()
    assert facts == {
        "ended": "finished",
        "pipelines": [{"name": "click-counts", "epochs": 1, "rows_in": 3, "rows_out": {"kafka": 2}, "last_epoch": 0}],
    }
    assert sorted(kafka.values(target)) == ["1", "2"]

    it.start("--trigger", "200ms", "--json")
    kafka.feed(source, [("a", "4")])
    eventually(lambda: "3" in kafka.values(target), "the next epoch")
    children = processes.family(it.running.pid)
    assert it.finish()["ended"] == "SIGTERM"
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "nothing is left behind", 10)
    assert sorted(kafka.values(target)) == ["1", "2", "3"]
    assert list((checkpoint_of(tmp_path / "home") / "commits").glob("1"))  # the epoch in hand was finished


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
