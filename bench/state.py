"""What each state backend costs: updates per second, and the bytes and the time of its snapshots.

python -m bench.state [--keys 10000,1000000] [--larger-than-heap] [--kinds hashmap] [--heap 1g] [--epochs N] [--json]

A count and a sum for each key. First every key is put in, then keys at random are updated; the figures are those of the
updates alone, whose result goes nowhere. Each backend runs in a Spark of its own, with the same heap. With
--larger-than-heap also a number of keys that the heap cannot hold: that the hashmap then dies is a result too.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

import onceward as ow
from bench.machine import circumstances
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import Home

STATES = {
    "hashmap": ow.State("hashmap"),
    "rocksdb full": ow.State("rocksdb", snapshots="full"),
    "rocksdb incremental": ow.State("rocksdb", snapshots="incremental"),
}
KEYS = (10_000, 1_000_000)
LARGE = 8_000_000  # at some 300 bytes a key, and two versions of the map, twice a heap of 1 GB and more
PARTITIONS = 2
EPOCHS = 20
MOST_ROWS = 100_000  # of an epoch
MAINTENANCE = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",  # snapshots beside the epochs, in a run that is short
    "spark.sql.streaming.numRecentProgressUpdates": "1000",
}
DEADLINE_S = 1800.0


def nowhere(_rows: DataFrame, _epoch: int) -> None:
    """The rows are counted, and that is all."""


class Files:
    """Which files of the state are new since the last look."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.seen: set[tuple[str, int]] = set()

    def new_bytes(self) -> int:
        found = self._now()
        new = {it: size for it, size in found.items() if it not in self.seen}
        self.seen |= new.keys()
        return sum(new.values())

    def _now(self) -> dict[tuple[str, int], int]:
        folder = self.home / Checkpoint.newest(Home.at(self.home)).folder / "state"
        found: dict[tuple[str, int], int] = {}
        for file in folder.rglob("*"):
            try:
                facts = file.stat()
            except FileNotFoundError:  # cleared away meanwhile
                continue
            if file.is_file() and not file.name.startswith("."):
                found[str(file), facts.st_ino] = facts.st_size
        return found

    def bytes(self) -> int:
        return sum(self._now().values())


def run(kind: str, keys: int, epochs: int, heap: str, folder: Path) -> dict[str, Any]:
    """One backend, one number of keys."""
    rows = min(keys, MOST_ROWS)
    fill = -(-keys // rows)
    settings = {**MAINTENANCE, "spark.driver.memory": heap, "spark.sql.shuffle.partitions": str(PARTITIONS)}
    spark = ow.session("bench", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    key = f"case when value < {keys} then value else pmod(xxhash64(value), {keys}) end as key"
    counted = source.selectExpr(key, "value").groupBy("key").agg({"value": "sum", "*": "count"}).where("`count(1)` < 0")
    home = folder / "home"
    pipeline = ow.Pipeline(f"bench-{uuid.uuid4().hex[:8]}", home, counted, output_mode="update", state=STATES[kind])
    query = pipeline.to(ow.FunctionSink(nowhere, idempotent=True)).start()
    files = Files(home)
    until(query, fill)
    files.new_bytes()
    until(query, fill + epochs)
    written = files.new_bytes()
    query.stop()
    progress = [it for it in query.spark_query.recentProgress if fill < it["batchId"] <= fill + epochs]
    state = [it["stateOperators"][0] for it in progress]
    spark.stop()
    return {
        "state": kind,
        "keys": keys,
        "rows_of_state": state[-1]["numRowsTotal"],
        "updates_per_s": rows / statistics.median(it["durationMs"]["triggerExecution"] / 1000 for it in progress),
        "bytes_per_epoch": written / epochs,
        "bytes_on_disk": files.bytes(),
        "snapshot_ms": statistics.median(it["commitTimeMs"] for it in state) / PARTITIONS,
        "memory_bytes": state[-1]["memoryUsedBytes"],
    }


def until(query: ow.Query, epochs: int) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while query.epochs_committed < epochs:
        if not query.is_active or time.monotonic() > deadline:
            query.stop()
            raise SystemExit(f"only {query.epochs_committed} of {epochs} epochs")
        time.sleep(0.05)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keys", default=",".join(map(str, KEYS)))
    options.add_argument("--larger-than-heap", action="store_true")
    options.add_argument("--kinds", default=",".join(STATES))
    options.add_argument("--heap", default="1g")
    options.add_argument("--epochs", type=int, default=EPOCHS)
    options.add_argument("--json", action="store_true")
    options.add_argument("--one", choices=STATES, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    sizes = [int(it) for it in given.keys.split(",") if it] + ([LARGE] if given.larger_than_heap else [])
    if given.one:
        print(json.dumps(run(given.one, sizes[0], given.epochs, given.heap, given.folder)))
        return
    print(f"{'state':22}{'keys':>12}{'updates/s':>12}{'MB per epoch':>14}{'MB on disk':>12}{'snapshot ms':>13}")
    results = []
    for keys in sizes:
        for kind in given.kinds.split(","):
            it = _apart(kind, keys, given.epochs, given.heap)
            results.append(it)
            head = f"{it['state']:22}{it['keys']:12,}"
            if "failed" in it:
                print(f"{head}   {it['failed']}", flush=True)
                continue
            sizes_mb = f"{it['bytes_per_epoch'] / 1e6:14,.2f}{it['bytes_on_disk'] / 1e6:12,.1f}"
            print(f"{head}{it['updates_per_s']:12,.0f}{sizes_mb}{it['snapshot_ms']:13,.0f}", flush=True)
    if given.json:
        print(json.dumps({"bench": "state", "heap": given.heap, "results": results, **circumstances()}))


def _apart(kind: str, keys: int, epochs: int, heap: str) -> dict[str, Any]:
    """In a process of its own; one that does not come through is told, not hidden."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.state", "--one", kind, "--keys", str(keys), "--epochs", str(epochs)]
        done = subprocess.run(
            [*command, "--heap", heap, "--folder", folder],
            capture_output=True, check=False, text=True,
        )  # fmt: skip
    told = [line for line in done.stdout.splitlines() if line.startswith("{")]  # a dying heap prints too
    if done.returncode == 0 and told:
        found: dict[str, Any] = json.loads(told[-1])
        return found
    memory = "OutOfMemoryError" in done.stderr or "Java heap space" in done.stderr
    last = done.stderr.strip().splitlines()[-1:] or ["no word"]
    return {
        "state": kind,
        "keys": keys,
        "failed": "does not fit into the heap" if memory else f"failed: {last[0][:200]}",
    }


if __name__ == "__main__":
    main()
