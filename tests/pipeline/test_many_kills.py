"""Real kills of pipelines with several real sinks: after each set of them every sink holds every epoch exactly once.

The job drops duplicates by value, so it is stateful and puts out one row per distinct event. Every event is fed twice,
in different epochs: state that was lost or applied twice shows as a missing or a doubled row.
"""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from onceward import crashpoints, processes
from onceward.servers.postgres import PostgresServer
from support import outputs
from support.driver import Driver
from support.judge import Kafka
from support.postgres import Database, away
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}], max_records_per_epoch=2000)
    unique = events.selectExpr("cast(value as string) as value").dropDuplicates(["value"])
    pipeline = ow.Pipeline({name!r}, home={home!r}, source=unique)
    for sink in [{sinks}]:
        pipeline.to(sink)
    return pipeline
"""
SETS = {
    "kafka-postgres": ("kafka", "postgres"),
    "kafka-files": ("kafka", "files"),
    "kafka-delta": ("kafka", "delta"),
    "postgres-files": ("postgres", "files"),
    "all": ("files", "kafka", "postgres", "delta", "iceberg"),
}
SETS["all-over-tasks"] = SETS["all"]  # written by Spark's tasks instead of the driver
SETS["all-sinks-between"] = SETS["all"]  # over tasks too, and at every sink's own vote and commit
SETS["ledger-decides"] = SETS["postgres-files"]  # at the points that depend on who decides


def points_of(which: str) -> list[str]:
    """In an order in which each start comes to the next one."""
    with_kafka = "kafka" in SETS[which]
    if which == "all-sinks-between":
        return ["voted", "voted#3", "decided", "committed", "committed#3", "decided", "committed#4"]
    if which == "ledger-decides":
        return ["writing", "voted#2", "decided", "resolving", "committed", "replaying", "recorded"]
    points = ["begun", "written", "voted#2", *(["prepared", "marked"] if with_kafka else []), "decided"]
    points += [
        "resolving",
        "committed#2" if which.startswith("all") else "committed",
        "replaying",
        "recovered",
        "recorded",
    ]
    if which.startswith("all"):
        return [*points, "fenced"]
    return [points[0], "writing", *points[1:]]


class Job:
    """One pipeline with several sinks, and the truth about them."""

    def __init__(
        self,
        kafka: Kafka,
        postgres: PostgresServer,
        make: Callable[[str], Driver],
        name: str,
        folder: Path,
        kinds: tuple[str, ...],
        small: int,
    ) -> None:
        self.kafka, self.source, self.home, self.make = kafka, kafka.topic(4), folder / "home", make
        makers: dict[str, Callable[[], outputs.Output]] = {
            "kafka": lambda: outputs.kafka(kafka, small),
            "files": lambda: outputs.files(folder, small),
            "postgres": lambda: outputs.postgres(Database.new(postgres).dsn(), small),
            "delta": lambda: outputs.delta(folder, small),
            "iceberg": lambda: outputs.iceberg(folder, small),
        }
        self.outputs = {kind: makers[kind]() for kind in kinds}
        self.text = FILE.format(
            bootstrap=kafka.bootstrap,
            source=self.source,
            name=name,
            home=str(self.home),
            sinks=", ".join(output.text for output in self.outputs.values()),
        )
        self.driver = make(self.text)
        self._numbers = itertools.count()
        self.fed = 0

    def feed(self, count: int = 200) -> None:
        """New events, and the previous ones once more."""
        fresh = [str(number) for number in itertools.islice(self._numbers, count)]
        again = [str(number) for number in range(max(0, self.fed - count), self.fed)]
        self.fed += count
        self.kafka.feed(self.source, ((value, value) for value in (*fresh, *again)))

    def die_at(self, point: str) -> None:
        self.driver.start("--once", ONCEWARD_CRASH_AT=point)
        assert self.driver.wait() == -signal.SIGKILL, f"at {point}:\n{self.driver.text()[-3000:]}"
        self.driver.kill()

    def finish(self) -> None:
        self.driver.start("--once", "--json").result()
        self.require_exact()

    def require_exact(self) -> None:
        """No loss, no duplicate, in any sink; every epoch the same in all; nothing left behind."""
        wanted = Counter(map(str, range(self.fed)))
        for kind, output in self.outputs.items():
            seen = Counter(output.values())
            assert seen == wanted, f"{kind}: lost {list(wanted - seen)[:10]}, doubled {list(seen - wanted)[:10]}"
            assert output.leftovers() == [], kind
        told = subprocess.run(
            [sys.executable, "-m", "onceward", "epochs", str(self.home), "--last", "1000", "--json"],
            capture_output=True, check=True, text=True,
        )  # fmt: skip
        for epoch in json.loads(told.stdout)["epochs"]:
            assert epoch["phase"] == "done"
            assert len({part["rows"] for part in epoch["sinks"].values()}) == 1, epoch

    def command(self, *arguments: str) -> dict[str, object]:
        told = self.ask(*arguments)
        assert told.returncode == 0, told.stderr
        found: dict[str, object] = json.loads(told.stdout.splitlines()[-1])
        return found

    def confirmed(self, command: str) -> dict[str, object]:
        """As a script's author does it: look at the destinations, then name their code."""
        refused = self.ask(command, str(self.home))
        (code,) = re.findall(r"--confirm ([0-9a-f]{16})", refused.stdout + refused.stderr)
        return self.command(command, str(self.home), "--confirm", code)

    @staticmethod
    def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "onceward", *arguments, "--json"],
            capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip


@pytest.fixture
def job(
    kafka: Kafka, postgres: PostgresServer, drivers: Callable[[str], Driver], name: str, tmp_path: Path
) -> Callable[..., Job]:
    return lambda kinds, small=10 << 20: Job(kafka, postgres, drivers, name, tmp_path, kinds, small)


def test_every_point_is_killed_at_over_all_sinks_and_over_the_ledgers_decision() -> None:
    """G1: these two sets are in `make test`; what a worker or a lookup reaches has tests of its own."""
    killed = {point.partition("#")[0] for which in ("all", "postgres-files") for point in points_of(which)}
    assert killed == set(crashpoints.POINTS) - {"task-writing"}


@pytest.mark.parametrize("which", SETS)
def test_a_driver_killed_at_every_step_leaves_every_sink_exact(job: Callable[..., Job], which: str) -> None:
    """A7, B3, B4, B5, B9, B10: one pipeline dies at each step of an epoch and of recovery, one after the other."""
    it = job(SETS[which], 0 if which in {"all-over-tasks", "all-sinks-between"} else 10 << 20)
    for point in points_of(which):
        it.feed()
        it.die_at(point)
    it.feed()
    it.finish()


def test_a_worker_killed_while_every_sink_is_written_over_tasks_changes_nothing(job: Callable[..., Job]) -> None:
    """B4: Spark repeats the task, or the epoch is redone; either way each row is there once."""
    it = job(SETS["all"], 0)
    it.feed(500)
    died = it.driver.file.with_suffix(".died")
    it.driver.start("--once", "--json", ONCEWARD_CRASH_AT="task-writing", ONCEWARD_CRASH_ONCE=str(died)).result()
    assert died.exists()
    it.require_exact()


@pytest.mark.parametrize("point", ["voted#2", "decided"])
@pytest.mark.parametrize("which", ["kafka-postgres", "postgres-files"])
def test_a_zombie_that_wakes_before_or_after_its_decision_adds_nothing(
    job: Callable[..., Job], which: str, point: str
) -> None:
    """C6, and its like for pipelines without Kafka: the term and the slot are the fence."""
    it = job(SETS[which])
    it.feed()
    zombie = it.make(it.text).start(ONCEWARD_CRASH_AT=point, ONCEWARD_CRASH_SIGNAL="SIGSTOP")
    eventually(lambda: processes.state(zombie.running.pid) == "T", f"the driver sleeps at {point}")
    it.feed()
    it.finish()  # waits for the sleeper's lease to run out, takes over, redoes or finishes its epoch and goes on
    zombie.running.send_signal(signal.SIGCONT)
    assert zombie.wait() == 4
    assert "take" in zombie.text(), zombie.text()[-3000:]
    it.require_exact()
    it.feed()
    it.finish()


@pytest.mark.parametrize("which", ["kafka-postgres", "postgres-files", "all"])
def test_an_epoch_in_doubt_is_resolved_by_a_command_without_spark(job: Callable[..., Job], which: str) -> None:
    """B10: in-doubt shows it, resolve commits it, and the next start has nothing left to do."""
    it = job(SETS[which])
    it.feed()
    it.die_at("decided")
    told = it.confirmed("in-doubt") if "kafka" in it.outputs else it.command("in-doubt", str(it.home))
    shown = told["in_doubt"]
    assert isinstance(shown, dict)
    assert (shown["epoch"], shown["decided"]) == (0, True)
    resolved = it.confirmed("resolve")["resolved"]
    assert isinstance(resolved, list)
    assert "epoch 0 was decided" in resolved[0]
    assert it.command("in-doubt", str(it.home))["in_doubt"] is None
    for output in it.outputs.values():
        assert Counter(output.values()) == Counter(map(str, range(it.fed)))
    assert it.confirmed("resolve")["resolved"] == []
    it.feed()
    it.finish()


def test_a_postgresql_that_is_away_after_the_decision_is_waited_for(
    job: Callable[..., Job], postgres: PostgresServer
) -> None:
    """B5: restarted between the decision and the commit; resolved without an operator."""
    it = job(SETS["kafka-postgres"])
    it.feed()
    it.driver.start("--json", ONCEWARD_CRASH_AT="decided", ONCEWARD_CRASH_SIGNAL="SIGSTOP",
                    ONCEWARD_CRASH_ONCE=str(it.driver.file.with_suffix(".slept")))  # fmt: skip
    eventually(lambda: processes.state(it.driver.running.pid) == "T", "the driver sleeps after its decision")
    with away(postgres):
        os.kill(it.driver.running.pid, signal.SIGCONT)
        eventually(lambda: "to commit epoch 0, which is decided" in it.driver.text(), "the driver notices")
    eventually(lambda: len(it.outputs["postgres"].values()) == it.fed, "the commit arrives")
    it.driver.finish()
    it.require_exact()
