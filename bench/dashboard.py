"""How quick the page's answers are with many pipelines and many epochs, and how much memory its server takes.

python -m bench.dashboard [--homes N] [--epochs N] [--rounds N] [--json]

Homes are made as drivers leave them, then `onceward ui` is started on them in a process of its own and asked as a
browser asks. Between two questions a second passes, so that each look is a new one. In the last part every home gets a
new epoch between two questions, as if all were running. `cpu_ms` is the server's own time for an answer, which a busy
machine does not stretch as it does the others.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.machine import circumstances
from onceward import processes
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, Entry, SinkEntry
from onceward.epoch.sealed import seal
from onceward.epoch.term import Beat, Holder, Start

KAFKA, FILES = "onceward.sinks.kafka.sink:KafkaSink", "onceward.sinks.files.sink:FileSink"
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def entry_of(name: str, epoch: int, upstream: str) -> Entry:
    """Two sinks, eight partitions: about 3 KB, as real ones are."""
    partitions = [(f"{name}-out", number, 125, f"{epoch * 31 + number:x}") for number in range(8)]
    offsets = ",".join(f'"{number}":{(epoch + 1) * 125}' for number in range(8))
    positions = f'{{"{upstream}":{{{offsets}}}}}'
    files = [{"name": f"part-{number}.parquet", "bytes": 40_000 + number} for number in range(4)]
    return Entry(
        pipeline=name,
        lineage="L",
        term=1,
        epoch=epoch,
        phase=DONE,
        positions=[positions],
        plan=f'v1\n{{"batchWatermarkMs":0,"conf":{{"spark.sql.shuffle.partitions":"8"}}}}\n{positions}',
        decider="kafka",
        sinks={
            "files": SinkEntry(
                kind=FILES, settings={"path": f"/data/{name}"}, rows=1000, digest="f" * 16,
                committable={"version": 1, "staged": f"{epoch}-1-1", "files": files},
                milliseconds={"begin": 0.5, "write": 40.0 + epoch % 9, "pre_commit": 3.0, "commit": 2.0},
            ),
            "kafka": SinkEntry(
                kind=KAFKA, settings={"bootstrap": "broker:9092", "topic": f"{name}-out"}, rows=1000, digest="e" * 16,
                partitions=partitions, committable={"version": 1, "producer_id": 4000, "producer_epoch": epoch},
                milliseconds={"begin": 0.1, "write": 60.0 + epoch % 13, "compute": 30.0, "decide": 7.0},
            ),
        },
        input_rows=1000,
        finished_at=(BEGAN + timedelta(seconds=epoch)).isoformat(timespec="milliseconds"),
        milliseconds={"vote": 120.0 + epoch % 9 + epoch % 13, "decide": 7.5, "commit": 2.5},
    )  # fmt: skip


def make_homes(root: Path, homes: int, epochs: int) -> list[str]:
    """A chain: each reads what the one before it writes. Nothing is synced, for the disk is not what is measured."""
    names = [f"pipeline-{number:03d}" for number in range(homes)]
    for number, name in enumerate(names):
        upstream = f"{names[number - 1]}-out" if number else "raw"
        path = root / name
        path.mkdir(mode=0o700)
        Home.at(path).open(name, "exactly-once", "L")
        holder = Holder(
            term=1, pipeline=name, host="bench", machine=processes.machine(), pid=os.getpid(),
            process_start=processes.started(os.getpid()), since=BEGAN.isoformat(),
        )  # fmt: skip
        (path / "terms").mkdir(exist_ok=True)
        (path / "terms/000001.json").write_bytes(seal(holder))
        (path / "terms/000001.lease").write_bytes(seal(Beat(count=1)))
        (path / "terms/000001.start").write_bytes(seal(Start(term=1, after_epoch=-1)))
        (path / "ledger").mkdir()
        for epoch in range(epochs):
            write_entry(path, entry_of(name, epoch, upstream))
    return names


def write_entry(home: Path, entry: Entry) -> None:
    (home / f"ledger/{entry.epoch:012d}-{entry.term:06d}.json").write_bytes(seal(entry))


class Asked:
    """A running server, and what it answers."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.pid = url, pid

    def __call__(self, path: str) -> tuple[float, int]:
        """Milliseconds and bytes."""
        began = time.perf_counter()
        with urllib.request.urlopen(f"{self.url}{path}", timeout=120) as answer:
            size = len(answer.read())
        return (time.perf_counter() - began) * 1000, size

    def memory_mb(self) -> float:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def served(root: Path) -> Iterator[Asked]:
    command = [sys.executable, "-m", "onceward", "ui", str(root), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        found = re.search(r"http://\S+?(?=/ )", process.stderr.readline())
        assert found is not None
        yield Asked(found[0], process.pid)
    finally:
        process.terminate()
        process.wait(30)


def measure(ask: Asked, names: list[str], epochs: int, rounds: int, beat: Callable[[], None]) -> dict[str, Any]:
    """Each answer: the first one, and the median of later ones."""
    one = names[len(names) // 2]
    paths = {
        "overview": "/api/overview",
        "a pipeline": f"/api/pipelines/{one}",
        "its last 300 epochs": f"/api/pipelines/{one}/epochs",
        "its last 2000 epochs": f"/api/pipelines/{one}/epochs?limit=2000",
        "one epoch": f"/api/pipelines/{one}/epochs/{epochs - 2}",
    }
    found: dict[str, Any] = {}
    started = ask.memory_mb()
    for what, path in paths.items():
        first, size = ask(path)
        later, cpu = [], ask.cpu_s()
        for _ in range(rounds):
            time.sleep(1.0)
            later.append(ask(path)[0])
        found[what] = {
            "first_ms": round(first, 1),
            "median_ms": round(statistics.median(later), 1),
            "cpu_ms": round((ask.cpu_s() - cpu) / rounds * 1000),
            "bytes": size,
        }
    watched = ask.memory_mb()
    for name in names:
        ask(f"/api/pipelines/{name}/epochs?limit=2000")
    time.sleep(1.0)
    ask("/api/overview")
    looked = ask.memory_mb()
    cpu, began, running = ask.cpu_s(), time.perf_counter(), []
    for _ in range(rounds):
        beat()
        time.sleep(1.0)
        running.append(ask("/api/overview")[0])
    used, passed = ask.cpu_s() - cpu, time.perf_counter() - began
    found["overview, all homes running"] = {
        "median_ms": round(statistics.median(running), 1),
        "cpu_ms": round(used / rounds * 1000),
    }
    found["memory"] = {"started_mb": round(started), "watching_mb": round(watched), "all_looked_at_mb": round(looked)}
    found["cpu_while_running"] = round(used / passed, 3)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--homes", type=int, default=50)
    options.add_argument("--epochs", type=int, default=2000, help="in each home's ledger")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="onceward-bench-") as folder:
        root = Path(folder)
        names = make_homes(root, given.homes, given.epochs)
        next_epoch = given.epochs

        def beat() -> None:
            nonlocal next_epoch
            for number, name in enumerate(names):
                (root / name / "terms/000001.lease").write_bytes(seal(Beat(count=next_epoch)))
                write_entry(root / name, entry_of(name, next_epoch, f"{names[number - 1]}-out" if number else "raw"))
            next_epoch += 1

        with served(root) as ask:
            found = measure(ask, names, given.epochs, given.rounds, beat)
    told = {"homes": given.homes, "epochs": given.homes * given.epochs, **found, "machine": circumstances()}
    if given.json:
        print(json.dumps(told))
        return
    for name, figure in told.items():
        print(f"{name}: {figure}")


if __name__ == "__main__":
    main()
