"""What a savepoint costs: its time beside a plain copy of the same bytes, and how long processing pauses for it.

python -m bench.savepoint [--keys 1000000] [--rounds 5] [--json]

A count and a sum for each key, which goes on being updated while savepoints are taken in this process, as
`query.savepoint()` does. The plain copy is `shutil.copytree` of the finished savepoint, each file synced, in turns with
the savepoints. The pause is what the epochs that ran beside a savepoint took longer than the median of the others.
"""

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import onceward as ow
from bench.machine import circumstances
from bench.state import MAINTENANCE, MOST_ROWS, PARTITIONS, nowhere, until


def synced_copy(source: Path, target: Path) -> float:
    """A copy that survives a power cut, as a savepoint does; seconds."""
    began = time.perf_counter()

    def copy(name: str, to: str) -> str:
        shutil.copyfile(name, to)
        with Path(to).open("rb") as file:
            os.fsync(file.fileno())
        return to

    shutil.copytree(source, target, copy_function=copy)
    return time.perf_counter() - began


def run(keys: int, rounds: int, folder: Path) -> dict[str, Any]:
    rows = min(keys, MOST_ROWS)
    settings = {**MAINTENANCE, "spark.driver.memory": "2g", "spark.sql.shuffle.partitions": str(PARTITIONS)}
    spark = ow.session("bench", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).option("numPartitions", 2).load()
    key = f"case when value < {keys} then value else pmod(xxhash64(value), {keys}) end as key"
    counted = source.selectExpr(key, "value").groupBy("key").agg({"value": "sum", "*": "count"}).where("`count(1)` < 0")
    pipeline = ow.Pipeline("bench", folder / "home", counted, output_mode="update", state=ow.State("rocksdb"))
    query = pipeline.to(ow.FunctionSink(nowhere, idempotent=True)).start()
    fill = -(-keys // rows)
    until(query, fill + 3)
    savepoints, copies, sizes, beside = [], [], [], set[int]()
    for number in range(rounds):
        until(query, query.epochs_committed + 3)  # epochs without one, to compare with
        first, began = query.epochs_committed, time.perf_counter()
        place = Path(query.savepoint(to=folder / f"savepoint-{number}"))
        savepoints.append(time.perf_counter() - began)
        beside |= set(range(first, query.epochs_committed + 1))
        sizes.append(sum(file.stat().st_size for file in place.rglob("*") if file.is_file()))
        copies.append(synced_copy(place, folder / f"copy-{number}"))
        shutil.rmtree(place)
        shutil.rmtree(folder / f"copy-{number}")
    query.stop()
    took = {it["batchId"]: it["durationMs"]["triggerExecution"] for it in query.spark_query.recentProgress}
    alone = statistics.median(ms for epoch, ms in took.items() if epoch > fill and epoch not in beside)
    longest = max((ms for epoch, ms in took.items() if epoch in beside), default=alone)
    spark.stop()
    return {
        "keys": keys,
        "bytes": statistics.median(sizes),
        "savepoint_s": statistics.median(savepoints),
        "copy_s": statistics.median(copies),
        "times_a_copy": statistics.median(a / b for a, b in zip(savepoints, copies, strict=True)),
        "epoch_ms": alone,
        "longest_epoch_beside_ms": longest,
        "pause_ms": max(0.0, longest - alone),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keys", type=int, default=1_000_000)
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(given.keys, given.rounds, Path(folder))
    print(f"{found['keys']:,} keys, {found['bytes'] / 1e6:,.1f} MB")
    print(f"savepoint {found['savepoint_s']:.2f} s, plain copy {found['copy_s']:.2f} s: {found['times_a_copy']:.2f} x")
    print(f"epoch {found['epoch_ms']:.0f} ms; the longest beside a savepoint {found['longest_epoch_beside_ms']:.0f} ms")
    if given.json:
        print(json.dumps({"bench": "savepoint", **found, **circumstances()}))


if __name__ == "__main__":
    main()
