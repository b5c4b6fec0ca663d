"""Three times Ctrl-C on a real `onceward run` whose epoch hangs: each is answered, and the third ends it at once."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

from onceward import processes
from support.driver import Driver
from support.judge import Kafka
from support.waiting import eventually

HANGS = """
import time
from pathlib import Path
import onceward as ow

def rows(batch):
    Path({folder!r}, "hangs").touch()
    while not Path({folder!r}, "go on").exists():
        time.sleep(0.05)
    return batch.select("key", "value")

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    return ow.Pipeline({name!r}, home={folder!r} + "/home", source=events).to(
        ow.KafkaSink({bootstrap!r}, topic={target!r}), rows=rows)
"""


def test_a_third_ctrl_c_ends_a_driver_whose_epoch_hangs_and_a_restart_is_exact(
    kafka: Kafka, drivers: Callable[[str], Driver], name: str, tmp_path: Path
) -> None:
    """I5: exit code 130, not a process is left, and the epoch is redone."""
    source, target = kafka.topic(1), kafka.topic(1)
    kafka.feed(source, [("k", str(number)) for number in range(10)])
    text = HANGS.format(
        folder=str(tmp_path), bootstrap=kafka.bootstrap, source=source, target=target, name=name
    )  # fmt: skip
    it = drivers(text).start("--json")
    eventually(lambda: (tmp_path / "hangs").exists() or not it.alive(), "an epoch hangs")
    family = set(processes.family(it.running.pid))
    assert len(family) > 1, "a JVM too"
    for answer in (
        "SIGINT: finishing the running epoch",
        f"SIGINT again: waiting for {name}: epoch 0",
        "SIGINT for the third time: ended at once. The next start finishes or redoes the epoch.",
    ):
        assert it.alive()
        os.killpg(it.running.pid, signal.SIGINT)  # as a terminal does: to everything in the foreground
        eventually(lambda answer=answer: answer in it.text(), f"the answer: {answer}")  # type: ignore[misc]
    assert it.wait(30) == 128 + signal.SIGINT
    eventually(lambda: not family & processes.living(), "no process is left")
    assert "Traceback" not in it.text()
    assert kafka.values(target) == []
    (tmp_path / "go on").touch()
    assert it.start("--json", "--once").result()["ended"] == "finished"
    assert kafka.values(target) == [str(number) for number in range(10)]
