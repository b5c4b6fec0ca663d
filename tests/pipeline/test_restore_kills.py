"""Restores that are killed, and drivers that sleep through one: either lineage goes on, and every sink is exact.

The job drops duplicates by value, so it is stateful and puts out one row per distinct event. Every event is fed twice,
in different epochs: state that was lost or applied twice shows as a missing or a doubled row.
"""

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from onceward import crashpoints, processes
from onceward.epoch.home import LINEAGES, Home
from onceward.savepoint.creating import create
from onceward.savepoint.manifest import load
from onceward.savepoint.place import Place
from onceward.servers.postgres import PostgresServer
from savepoint.homes import now
from support import outputs
from support.driver import Driver
from support.judge import Kafka
from support.postgres import Database
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    unique = events.selectExpr("cast(value as string) as value").dropDuplicates(["value"])
    pipeline = ow.Pipeline({name!r}, home={home!r}, source=unique)
    for sink in [{sinks}]:
        pipeline.to(sink)
    return pipeline
"""
BEFORE = ("restore-copied", "restore-rescaled", "restore-ready")  # the old lineage counts until the next one


class Job:
    """One pipeline with its sinks, and the truth about them."""

    def __init__(
        self, kafka: Kafka, make: Callable[[str], Driver], name: str, folder: Path, sinks: dict[str, outputs.Output]
    ) -> None:
        self.kafka, self.source, self.home, self.folder = kafka, kafka.topic(2), folder / "home", folder
        self.outputs = sinks
        self.text = FILE.format(
            bootstrap=kafka.bootstrap,
            source=self.source,
            name=name,
            home=str(self.home),
            sinks=", ".join(output.text for output in sinks.values()),
        )
        self.make, self.driver, self.fed = make, make(self.text), 0

    def feed(self, count: int = 40) -> None:
        """New events, and the previous ones once more."""
        values = range(max(0, self.fed - count), self.fed + count)
        self.fed += count
        self.kafka.feed(self.source, ((str(value), str(value)) for value in values))

    def run(self, *arguments: str) -> None:
        self.driver.start("--once", "--json", *arguments).result()

    def restore_and_die(self, place: Path, point: str) -> None:
        self.driver.start("--once", "--from", str(place), "--partitions", "3", ONCEWARD_CRASH_AT=point)
        assert self.driver.wait() == -signal.SIGKILL, f"at {point}:\n{self.driver.text()[-3000:]}"
        self.driver.kill()

    def save(self, name: str) -> Path:
        return Path(create(Home.at(self.home), to=self.folder / name, now=now).location)

    def lineages(self) -> list[str]:
        return sorted(path.name for path in (self.home / LINEAGES).glob("*"))

    def in_force(self) -> str:
        """The folder of the lineage that the next start goes on with; empty: the first one's."""
        deed = Home.at(self.home).deed()
        assert deed is not None
        return deed.folder.removeprefix(f"{LINEAGES}/")

    def require_exact(self) -> None:
        wanted = Counter(map(str, range(self.fed)))
        for kind, output in self.outputs.items():
            seen = Counter(output.values())
            assert seen == wanted, f"{kind}: lost {list(wanted - seen)[:10]}, doubled {list(seen - wanted)[:10]}"
            assert output.leftovers() == [], kind


@pytest.fixture
def job(
    kafka: Kafka, postgres: PostgresServer, drivers: Callable[[str], Driver], name: str, tmp_path: Path
) -> Callable[..., Job]:
    """Has run one epoch."""

    def make(*kinds: str) -> Job:
        makers = {
            "kafka": lambda: outputs.kafka(kafka, 10 << 20),
            "postgres": lambda: outputs.postgres(Database.new(postgres).dsn(), 10 << 20),
        }
        made = Job(kafka, drivers, name, tmp_path, {kind: makers[kind]() for kind in kinds})
        made.feed()
        made.run()
        return made

    return make


def test_a_restore_killed_at_any_step_leaves_the_old_lineage_or_a_whole_new_one(job: Callable[..., Job]) -> None:
    """E6, E7: before its last step nothing has happened, after it all has; and a repeated restore succeeds."""
    assert (*BEFORE, "restore-begun") == crashpoints.OF_RESTORES
    it = job("kafka", "postgres")
    place = it.save("saved")
    for point in BEFORE:
        it.restore_and_die(place, point)
        assert it.in_force() == ""
        assert len(it.lineages()) == 1  # what those before it have left is cleared
    it.feed()
    it.run()  # the old lineage, as if nobody had tried
    it.require_exact()

    it.restore_and_die(it.save("again"), "restore-begun")
    assert [it.in_force()] == it.lineages()
    it.feed()
    it.run()  # the new one
    it.require_exact()
    assert load(Place.at(it.save("at-last"))).partitions == 3
    it.feed()
    it.run("--from", str(it.folder / "at-last"), "--partitions", "2")
    assert len(it.lineages()) == 2  # one that has ended is no leftover
    it.require_exact()


@pytest.mark.parametrize(
    ("point", "kinds"), [("marked", ("kafka",)), ("voted#1", ("kafka", "postgres"))], ids=["marked", "voted"]
)
def test_a_driver_that_sleeps_through_a_restore_adds_nothing(
    job: Callable[..., Job], point: str, kinds: tuple[str, ...]
) -> None:
    """E8, C6: its lineage has ended while it slept, before its last vote or its decision."""
    it = job(*kinds)
    place = it.save("saved")
    it.feed()
    zombie = it.make(it.text).start("--once", ONCEWARD_CRASH_AT=point, ONCEWARD_CRASH_SIGNAL="SIGSTOP")
    eventually(lambda: zombie.alive() and processes.state(zombie.running.pid) == "T", f"the driver sleeps at {point}")
    it.feed()
    it.run("--from", str(place), "--partitions", "3", "--take-over")
    it.require_exact()
    zombie.running.send_signal(signal.SIGCONT)
    assert zombie.wait() == 4
    assert "take" in zombie.text(), zombie.text()[-3000:]
    it.require_exact()
    assert [it.in_force()] == it.lineages()
