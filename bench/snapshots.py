"""Consistent snapshots of running pipelines under fire: every one is checked, and some go on as copies, to the record.

python -m bench.snapshots [--snapshots 50] [--restores 3] [--rate 300] [--seed 1] [--json]
python -m bench.snapshots --overhead [--windows 6] [--seconds 15] [--json]

Five pipelines (bench/joined.py), three in a chain and two in a cycle, are fed and killed with -9 at random while
snapshots are taken. Each is verified from the topics. At the end the input stops, the originals finish, and some of the
snapshots are restored as copies, each killed once on the way, and run to the end: what the originals had written by the
snapshot and what the copy wrote must together be what an undisturbed run gives.

--overhead: how much is committed in windows with a snapshot every few seconds, and in windows without, in turns.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.machine import circumstances
from onceward import processes
from onceward.epoch import inspection
from onceward.epoch.home import Home
from onceward.kafka.wire import Cluster, Wire
from onceward.savepoint.manifest import load as load_savepoint
from onceward.savepoint.place import Place
from onceward.servers.broker import DevBroker
from onceward.sinks.kafka.boundaries import boundaries_in
from onceward.snapshot.creating import create
from onceward.snapshot.manifest import savepoint_of
from onceward.snapshot.verifying import verify

FILE = Path(__file__).with_name("joined.py")
PIPELINES = ("first", "second", "third", "there", "back")
INPUTS = ("numbers", "tokens")
TOPICS = (*INPUTS, "doubled", "distinct", "results", "again", "turns", "arrived")
OUTPUTS = {"results": "third", "arrived": "back"}  # what nobody reads on, and who writes it
TURNS = 4
BACKLOG = 400_000
WARM = 10  # epochs
PARTITIONS = 2
DEADLINE_S = 300.0
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


class World:
    """Brokers, topics, and what is fed."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder, self.kafka = folder, bootstrap
        self.wire = Wire(Cluster(bootstrap))
        self.wire.create_topics(TOPICS, PARTITIONS)
        self.fed = 0
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    @property
    def homes(self) -> list[Home]:
        return [Home.at(self.folder / "homes" / name) for name in PIPELINES]

    def feed(self, count: int) -> None:
        """Numbers, some of them twice, and tokens."""
        for number in range(self.fed, self.fed + count):
            for _ in range(1 + (number % 7 == 0)):
                self._produce("numbers", number, number)
            self._produce("tokens", number, 1 + number % TURNS)
        self._producer.flush()
        self.fed += count

    def _produce(self, topic: str, key: int, value: int) -> None:
        while True:
            try:
                self._producer.produce(topic, key=str(key), value=str(value))
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def expected(self) -> dict[str, Counter[tuple[str, str]]]:
        """What an undisturbed run gives."""
        return {
            "results": Counter((str(number), str(2 * number + 1)) for number in range(self.fed)),
            "arrived": Counter((str(number), "0") for number in range(self.fed)),
        }

    def read(self, topic: str, up_to: dict[int, int] | None = None) -> Counter[tuple[str, str]]:
        """What a read_committed reader of another client finds."""
        reader = Consumer(
            {
                "bootstrap.servers": self.kafka,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        found: Counter[tuple[str, str]] = Counter()
        left = set(range(PARTITIONS))
        reader.assign([TopicPartition(topic, partition, 0) for partition in left])
        while left:
            message = reader.poll(10)
            if message is None or message.error():
                left -= {message.partition()} if message is not None else set()
            elif up_to is None or message.offset() < up_to.get(message.partition(), 0):
                found[message.key().decode(), message.value().decode()] += 1
        reader.close()
        return found


class Driver:
    """`onceward` in a process of its own."""

    def __init__(self, world: World, log: str, *command: str) -> None:
        self._world, self._log, self._command = world, world.folder / f"{log}.log", command
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> None:
        here = {"KAFKA": self._world.kafka, "HOMES": str(self._world.folder / "homes"), "JAVA_TOOL_OPTIONS": QUICK_JVM}
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "onceward", *self._command, "--master", "local[2]"],
                stdout=log, stderr=log, env={**os.environ, **here, **environment}, start_new_session=True,
            )  # fmt: skip

    def kill(self) -> None:
        """Everything of it, with 9."""
        assert self.process is not None
        pid = self.process.pid
        processes.send({*processes.family(pid), *processes.session(pid)}, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        assert self.process is not None
        self.process.terminate()
        self.process.wait(60)

    def require_alive(self) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            raise SystemExit(f"a driver ended by itself:\n{self._log.read_text()[-4000:]}")


def until(done: Callable[[], bool], driver: Driver) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        driver.require_alive()
        if time.monotonic() > deadline:
            raise SystemExit("not finished in time")
        time.sleep(0.3)


def under_fire(world: World, snapshots: int, rate: int, dice: random.Random) -> tuple[list[Place], dict[str, Any]]:
    """Snapshots while drivers are killed; each verified at once."""
    world.feed(rate)
    driver = Driver(world, "originals", "run", str(FILE))
    driver.start()
    stop = threading.Event()
    killed = 0

    def feed() -> None:
        while not stop.wait(0.2):
            world.feed(rate // 5)

    def kill_now_and_then() -> None:
        nonlocal killed
        moments = random.Random(dice.random())
        wait_s = moments.uniform(1, 3)
        while not stop.wait(wait_s):
            driver.kill()
            killed += 1
            driver.start()
            wait_s = moments.uniform(5, 18)  # a start takes seconds: some are killed before they are through

    until(lambda: all(_epochs(home) >= 0 for home in world.homes), driver)
    threads = [threading.Thread(target=it, daemon=True) for it in (feed, kill_now_and_then)]
    for thread in threads:
        thread.start()
    taken: list[Place] = []
    seconds: list[float] = []
    for number in range(snapshots):
        time.sleep(dice.uniform(0, 2))
        began = time.monotonic()
        place, snapshot = create(world.homes, world.folder / f"snapshot-{number}", now=_now, patience_s=DEADLINE_S)
        seconds.append(time.monotonic() - began)
        verify(place, snapshot, world.wire)
        taken.append(place)
        under_way = sum(channel.offsets for channel in snapshot.channels)
        epochs = " ".join(f"{it.pipeline}@{it.epoch}" for it in snapshot.members)
        print(f"snapshot {number}: {epochs}, {under_way} on their way, {seconds[-1]:.2f} s", flush=True)
    stop.set()
    for thread in threads:
        thread.join()
    expected = world.expected()
    until(lambda: all(world.read(topic) == expected[topic] for topic in OUTPUTS), driver)
    driver.stop()
    return taken, {"kills": killed, "seconds_median": statistics.median(seconds), "seconds_most": max(seconds)}


def restored(world: World, place: Place, prefix: str, dice: random.Random) -> int:
    """A copy, killed once on the way and then run to the end; how many records it made. Wrong ones end the run."""
    driver = Driver(world, prefix, "snapshot", "restore", place.location, str(FILE), "--as", prefix)
    points = ["snapshot-filled", "restore-copied", "restore-begun#2", "begun", "decided"]
    driver.start(ONCEWARD_CRASH_AT=dice.choice(points))
    assert driver.process is not None
    driver.process.wait(DEADLINE_S)
    driver.kill()
    driver.start()
    by_then = {topic: world.read(topic, _boundaries(place, writer, topic)) for topic, writer in OUTPUTS.items()}
    expected = world.expected()
    made: dict[str, Counter[tuple[str, str]]] = {}

    def done() -> bool:
        known = world.wire.topics([f"{prefix}-{topic}" for topic in OUTPUTS])
        made.update({topic: world.read(f"{prefix}-{topic}") for topic in OUTPUTS if f"{prefix}-{topic}" in known})
        return all(
            made.get(topic, Counter()).total() + by_then[topic].total() >= expected[topic].total() for topic in OUTPUTS
        )

    until(done, driver)
    driver.stop()
    done()
    for topic in OUTPUTS:
        together = by_then[topic] + made[topic]
        if together != expected[topic]:
            raise SystemExit(
                f"{prefix}, {topic}: missing {expected[topic] - together}, extra {together - expected[topic]}"
            )
    return sum(found.total() for found in made.values())


def overhead(world: World, windows: int, seconds: float) -> dict[str, Any]:
    """Rows that the first pipelines of both groups commit in a second, with and without snapshots, in turns."""
    world.feed(BACKLOG)
    driver = Driver(world, "originals", "run", str(FILE))
    driver.start(MOST_RECORDS="2000")  # short epochs, so that a window has many
    until(lambda: all(_epochs(home) >= WARM for home in world.homes), driver)
    rates: dict[bool, list[float]] = {True: [], False: []}
    took: list[float] = []
    for window in range(2 * windows):
        with_snapshots = window % 2 == 1
        before, began = _rows(world), time.monotonic()
        while time.monotonic() < began + seconds:
            if with_snapshots:
                at, at_work = time.monotonic(), time.process_time()
                create(world.homes, world.folder / f"snapshot-{window}-{at}", now=_now)
                took.append(time.process_time() - at_work)
            time.sleep(seconds / 3)
        rates[with_snapshots].append((_rows(world) - before) / (time.monotonic() - began))
    driver.kill()
    without, with_ = statistics.median(rates[False]), statistics.median(rates[True])
    return {
        "rows_per_s_without": without,
        "rows_per_s_with": with_,
        "overhead": 1 - with_ / without,
        "cpu_s_of_a_snapshot": statistics.median(took),
        "snapshots_a_minute": 60 * len(took) / windows / seconds,
    }


def _rows(world: World) -> int:
    ends = world.wire.ends(["doubled", "turns"])
    return sum(ends.values())


def _epochs(home: Home) -> int:
    with contextlib.suppress(Exception):  # not there yet
        last = inspection.ledger_of(home, inspection.deed_of(home)).last()
        return last.epoch if last is not None else -1
    return -1


def _boundaries(place: Place, pipeline: str, topic: str) -> dict[int, int]:
    entry = load_savepoint(savepoint_of(place, pipeline)).entry
    stood = boundaries_in(entry.sinks[entry.decider or ""].committable)
    return {it.partition: offset for it, offset in stood.items() if it.topic == topic}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--snapshots", type=int, default=50)
    options.add_argument("--restores", type=int, default=3)
    options.add_argument("--rate", type=int, default=300, help="numbers and tokens a second")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--overhead", action="store_true")
    options.add_argument("--windows", type=int, default=6)
    options.add_argument("--seconds", type=float, default=15.0)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    dice = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as folder, DevBroker(Path(folder) / "kafka", port=0) as broker:
        world = World(Path(folder), broker.bootstrap)
        if given.overhead:
            facts = overhead(world, given.windows, given.seconds)
            print(
                f"{facts['rows_per_s_without']:,.0f} rows/s without, {facts['rows_per_s_with']:,.0f} with "
                f"{facts['snapshots_a_minute']:.0f} snapshots a minute: {facts['overhead']:.1%}; "
                f"{facts['cpu_s_of_a_snapshot']:.2f} CPU-seconds each"
            )
        else:
            taken, facts = under_fire(world, given.snapshots, given.rate, dice)
            print(f"{len(taken)} snapshots, all consistent; {facts['kills']} kills; {world.fed} numbers and tokens")
            chosen = dice.sample(taken, min(given.restores, len(taken)))
            for number, place in enumerate(chosen):
                made = restored(world, place, f"copy{number}", dice)
                print(f"{Path(place.location).name} as a copy: exact, {made} records made", flush=True)
            facts |= {"snapshots": len(taken), "restored": len(chosen), "fed": world.fed}
        world.wire.close()
    if given.json:
        print(json.dumps({"bench": "snapshots", **facts, **circumstances()}))


if __name__ == "__main__":
    main()
