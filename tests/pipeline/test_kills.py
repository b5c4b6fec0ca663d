"""Real kills: the driver, its workers and the broker die with SIGKILL or sleep with SIGSTOP; then a judge counts.

The job drops duplicates by value, so it is stateful and puts out one record per distinct event. Every event is fed
twice, in different epochs: state that was lost or applied twice shows as a missing or a doubled record.
"""

import itertools
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onceward import processes
from onceward.kafka.wire import Cluster, Wire
from onceward.servers.broker import DevBroker
from support.driver import Driver
from support.judge import Kafka
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

FILE = """
import onceward as ow

def build(spark):
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}], max_records_per_epoch={per_epoch})
    unique = events.select("value").dropDuplicates(["value"])
    sink = ow.KafkaSink({bootstrap!r}, topic={target!r}, small_epoch_bytes={small}, transaction_timeout_ms={timeout})
    return ow.Pipeline({name!r}, home={home!r}, source=unique).to(sink)
"""
WAYS = pytest.mark.parametrize("small", [10 << 20, 0], ids=["short-way", "over-tasks"])


class Job:
    """One pipeline, its topics, and the truth about them."""

    def __init__(
        self,
        kafka: Kafka,
        make: Callable[[str], Driver],
        name: str,
        home: Path,
        *,
        small: int,
        timeout_ms: int = 60_000,
    ) -> None:
        self.kafka, self.source, self.target = kafka, kafka.topic(4), kafka.topic(4)
        self.text = FILE.format(
            bootstrap=kafka.bootstrap,
            source=self.source,
            target=self.target,
            name=name,
            home=str(home),
            small=small,
            timeout=timeout_ms,
            per_epoch=2000,
        )
        self.make = make
        self.driver = make(self.text)
        self._numbers = itertools.count()
        self.fed = 0

    def feed(self, count: int = 300) -> None:
        """New events, and the previous ones once more."""
        fresh = [str(number) for number in itertools.islice(self._numbers, count)]
        again = [str(number) for number in range(max(0, self.fed - count), self.fed)]
        self.fed += count
        self.kafka.feed(self.source, ((value, value) for value in (*fresh, *again)))

    def seen(self) -> Counter[str]:
        return Counter(self.kafka.values(self.target))

    def finish(self) -> None:
        """A last clean run, then the verdict: every event once."""
        self.driver.start("--once", "--json").result()
        self.require_exact()

    def require_exact(self) -> None:
        seen = self.seen()
        lost = [number for number in map(str, range(self.fed)) if number not in seen]
        doubled = {value: count for value, count in seen.items() if count > 1}
        assert not lost, f"lost {len(lost)}: {lost[:10]}"
        assert not doubled, f"duplicated {len(doubled)}: {list(doubled.items())[:10]}"
        assert len(seen) == self.fed


@pytest.fixture
def job(kafka: Kafka, drivers: Callable[[str], Driver], name: str, tmp_path: Path) -> Callable[..., Job]:
    return lambda **options: Job(kafka, drivers, name, tmp_path / "home", **options)


@WAYS
def test_a_driver_killed_at_every_named_point_loses_and_doubles_nothing(job: Callable[..., Job], small: int) -> None:
    """A1, B4, B5, C5: one pipeline dies at each step of an epoch's life and of recovery, one after the other."""
    it = job(small=small)
    points = ["begun", "written", "marked", "decided", "replaying", "fenced", "recovered", "recorded"]
    if small:
        points.insert(1, "writing")
    for point in points:
        it.feed()
        it.driver.start("--once", ONCEWARD_CRASH_AT=point)
        assert it.driver.wait() == -signal.SIGKILL, f"at {point}:\n{it.driver.text()[-3000:]}"
        it.driver.kill()
        assert max(it.seen().values(), default=1) == 1
    it.feed()
    it.finish()


@WAYS
def test_a_driver_killed_at_random_loses_and_doubles_nothing(job: Callable[..., Job], small: int) -> None:
    """A1: kills at moments nobody chose."""
    dice = random.Random(small)
    it = job(small=small)
    it.feed(1000)
    for _ in range(3):
        before = len(it.seen())
        it.feed()
        it.driver.start()
        eventually(lambda before=before: len(it.seen()) > before, "output of this run")
        until = dice.uniform(0, 2)
        it.feed(2000)
        it.driver.kill_after(until)
    it.feed()
    it.finish()


@WAYS
def test_a_zombie_that_wakes_after_its_successor_committed_adds_nothing(job: Callable[..., Job], small: int) -> None:
    """C6: its records, its marker and its commit are refused, and it says so."""
    it = job(small=small)
    it.feed()
    zombie = it.make(it.text).start(ONCEWARD_CRASH_AT="written", ONCEWARD_CRASH_SIGNAL="SIGSTOP")
    eventually(lambda: processes.state(zombie.running.pid) == "T", "the driver sleeps with its records written")
    it.feed()
    it.finish()  # waits for the sleeper's lease to run out, takes over, redoes its epoch and goes on
    zombie.running.send_signal(signal.SIGCONT)
    assert zombie.wait() == 4
    assert "taken over" in zombie.text(), zombie.text()[-3000:]
    it.feed()
    it.finish()


def test_two_drivers_on_one_home_the_second_says_who_is_there_or_takes_over(job: Callable[..., Job]) -> None:
    it = job(small=10 << 20)
    it.feed()
    it.driver.start()
    eventually(lambda: len(it.seen()) == it.fed, "the first driver works")
    second = it.make(it.text).start("--once")
    assert second.wait() == 1
    assert f"process {it.driver.running.pid}" in second.text()
    assert "--take-over" in second.text()
    it.feed()
    eventually(lambda: len(it.seen()) == it.fed, "the first driver was not disturbed")
    third = it.make(it.text).start("--take-over", "--json")
    # Idle as it is, it stops at once: Spark would plan its next epoch before anybody could refuse it (trap 22).
    assert it.driver.wait() == 4
    assert "taken over" in it.driver.text()
    it.feed()
    eventually(lambda: third.alive() and len(it.seen()) == it.fed, "the rightful driver goes on undisturbed")
    third.finish()
    it.finish()


@WAYS
def test_a_transaction_that_timed_out_while_the_driver_slept_is_redone(job: Callable[..., Job], small: int) -> None:
    """C9: the broker aborts it; the driver wakes, notices and redoes the epoch."""
    it = job(small=small, timeout_ms=2000)
    it.feed()
    once = str(it.driver.file.with_suffix(".slept"))
    sleep = {"ONCEWARD_CRASH_AT": "written", "ONCEWARD_CRASH_SIGNAL": "SIGSTOP", "ONCEWARD_CRASH_ONCE": once}
    it.driver.start("--once", "--json", **sleep)
    eventually(lambda: processes.state(it.driver.running.pid) == "T", "the driver sleeps with its records written")
    records = sum(it.kafka.end_offsets(it.target).values())
    eventually(lambda: sum(it.kafka.end_offsets(it.target).values()) > records, "the broker has written abort markers")
    it.driver.running.send_signal(signal.SIGCONT)
    it.driver.result()
    assert "INVALID_TXN_STATE" in it.driver.text() or "INVALID_PRODUCER_EPOCH" in it.driver.text()
    it.require_exact()


def test_a_python_worker_killed_in_the_middle_of_writing_poisons_the_transaction(job: Callable[..., Job]) -> None:
    """Trap 1: the task that Spark would repeat refuses to write; the epoch is redone under a new producer epoch."""
    it = job(small=0)
    it.feed()
    died = it.driver.file.with_suffix(".died")
    it.driver.start("--once", "--json", ONCEWARD_CRASH_AT="task-writing", ONCEWARD_CRASH_ONCE=str(died))
    it.driver.result()
    assert died.exists()
    assert "is redone" in it.driver.text()
    it.require_exact()


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DevBroker, Kafka]]:
    """A broker that may be killed without disturbing other tests."""
    with DevBroker(tmp_path_factory.mktemp("own"), port=0) as broker:
        wire = Wire(Cluster(broker.bootstrap))
        yield broker, Kafka(broker.bootstrap, wire)
        wire.close()


@WAYS
def test_a_broker_killed_and_restarted_loses_and_doubles_nothing(
    own_kafka: tuple[DevBroker, Kafka], drivers: Callable[[str], Driver], name: str, tmp_path: Path, small: int
) -> None:
    """C1, B5: the driver lives through it."""
    broker, kafka = own_kafka
    it = Job(kafka, drivers, name, tmp_path / "home", small=small)
    it.feed(1000)
    it.driver.start("--json")
    for _ in range(2):
        eventually(lambda: len(it.seen()) == it.fed, "the pipeline keeps up")
        it.feed(3000)
        broker.kill()
        broker.restart()
    it.feed()
    eventually(lambda: len(it.seen()) == it.fed, "the pipeline goes on")
    it.driver.finish()
    it.require_exact()


@pytest.mark.cluster
def test_tasks_in_executor_processes_that_are_killed_lose_and_double_nothing(job: Callable[..., Job]) -> None:
    """C6: on local-cluster: a worker dies writing, an executor dies, the driver dies at the worst moment."""
    it = job(small=0)
    cluster = ("--master", "local-cluster[2,1,1024]")
    it.feed()
    died = it.driver.file.with_suffix(".died")
    it.driver.start(*cluster, "--json", ONCEWARD_CRASH_AT="task-writing", ONCEWARD_CRASH_ONCE=str(died))
    eventually(lambda: len(it.seen()) == it.fed, "the epoch was redone after a worker died")
    assert died.exists()
    it.feed(2000)
    it.driver.kill_descendant("CoarseGrainedExecutorBackend")
    eventually(lambda: len(it.seen()) == it.fed, "the epoch was redone after an executor died")
    it.driver.kill()
    it.feed()
    it.driver.start(*cluster, ONCEWARD_CRASH_AT="decided")
    assert it.driver.wait() == -signal.SIGKILL
    it.driver.kill()
    it.driver.start(*cluster, "--once", "--json").result()
    it.require_exact()
