"""Each order counts once, though the pipeline is killed with -9 twice: before its commit, and right after it.

The test starts a Kafka of its own in a temporary folder, and removes both. It takes about a minute.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ORDERS, TOTALS = "new-project-orders", "new-project-totals"


class Machine:
    """Gives `onceward` commands, in a folder and on a Kafka of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log.txt"
        # What a killed process leaves in its temporary folder goes with ours.
        self.environment = {
            **os.environ,
            "TMPDIR": str(folder),
            "SPARK_LOCAL_DIRS": str(folder),
            "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={folder}",
        }

    def onceward(self, *words: str, stdin: bytes = b"", crash_at: str = "") -> tuple[int, str]:
        """The exit code of a command, and what it printed. `crash_at`: it dies with SIGKILL at this moment."""
        with self.log.open("ab") as log:
            done = subprocess.run(
                [sys.executable, "-m", "onceward", *words],
                input=stdin,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=self.folder,
                env={**self.environment, "ONCEWARD_CRASH_AT": crash_at},
                check=False,
            )
        return done.returncode, done.stdout.decode()

    def kafka(self, *words: str, stdin: bytes = b"") -> str:
        """What `onceward kafka` printed; it must not fail."""
        code, printed = self.onceward("kafka", *words, "--dir", str(self.folder / "kafka"), stdin=stdin)
        assert code == 0, self.log.read_text()
        return printed

    def run_the_pipeline(self, crash_at: str = "") -> int:
        """Everything that is there now; the exit code."""
        code, _ = self.onceward("run", str(HERE / "pipeline.py"), "--once", crash_at=crash_at)
        return code

    def totals(self, *options: str) -> list[str]:
        """What a reader of the totals sees."""
        return sorted(self.kafka("consume", TOTALS, *options).split())


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        machine = Machine(Path(folder))
        try:
            started = machine.kafka("start", "--port", "0", "--json")
            machine.environment["KAFKA"] = json.loads(started)["bootstrap"]
            machine.kafka("topic", "create", ORDERS, TOTALS)
            yield machine
        finally:
            machine.kafka("stop")


def test_each_order_counts_once_though_the_pipeline_is_killed(machine: Machine) -> None:
    expected = ["ann:15.00", "bob:8.25", "cid:20.00"]
    machine.kafka("produce", ORDERS, stdin=(HERE / "events.txt").read_bytes())

    # Killed when everything is written and nothing is committed: only who asks for uncommitted records sees any.
    assert machine.run_the_pipeline(crash_at="written") == -signal.SIGKILL
    assert machine.totals() == []
    assert machine.totals("--uncommitted") == expected

    # Killed when everything is committed and Spark has not noted it: with Spark's own sink, the next start would write
    # everything again.
    assert machine.run_the_pipeline(crash_at="decided") == -signal.SIGKILL
    assert machine.totals() == expected

    machine.kafka("produce", ORDERS, "ann:5.00")
    assert machine.run_the_pipeline() == 0, machine.log.read_text()
    assert machine.totals() == sorted([*expected, "ann:20.00"])
