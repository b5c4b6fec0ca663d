"""`onceward run --restart`, with Spark: a JVM that crashes and a driver that is killed are survived."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from onceward import processes
from support.driver import Driver
from support.judge import Kafka
from support.waiting import eventually

FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    return ow.Pipeline({name!r}, home={home!r}, source=events).to(
        ow.KafkaSink({bootstrap!r}, topic={target!r}), rows=lambda batch: batch.select("key", "value"))
"""


@pytest.mark.slow
def test_a_crashed_jvm_and_a_killed_driver_are_started_again_and_sigterm_ends_both(
    kafka: Kafka, drivers: Callable[[str], Driver], name: str, tmp_path: Path
) -> None:
    """I5: exact throughout."""
    source, target = kafka.topic(1), kafka.topic(1)
    it = drivers(
        FILE.format(bootstrap=kafka.bootstrap, source=source, target=target, name=name, home=str(tmp_path / "home"))
    )
    it.start("--restart", "--trigger", "200ms", "--json-lines")

    def feed(number: int) -> None:
        kafka.feed(source, [("k", str(number))])
        eventually(lambda: len(kafka.values(target)) == number + 1, f"event {number}")

    def child() -> int:
        return next(pid for pid in processes.family(it.running.pid)[1:] if "onceward" in processes.command(pid))

    feed(0)
    jvm = next(pid for pid in processes.family(it.running.pid) if "java" in processes.command(pid).split(" ")[0])
    os.kill(jvm, signal.SIGKILL)
    feed(1)
    assert "exit code 1" in it.text()
    os.kill(child(), signal.SIGKILL)
    feed(2)
    assert "killed by SIGKILL" in it.text()
    children = processes.family(it.running.pid)
    assert it.finish()["ended"] == "SIGTERM"
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children), "nothing is left behind", 30)
    assert kafka.values(target) == ["0", "1", "2"]
    assert "Traceback" not in it.text()
