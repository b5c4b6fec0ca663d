"""Two ways to find out which ad an order is owed to: a join of two streams, and a stateful function in Python.

python -m bench.attribution [--events N] [--epoch N] [--rounds N] [--json]

The same events (the demo's), in the same epochs, from files; each way runs in a Spark of its own, in turns, and its
answers are compared with the truth. The function needs protobuf (pip install protobuf); without it, it is left out.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import onceward as ow
from bench.machine import circumstances
from onceward.apps.ads import words
from onceward.apps.ads.attribute import attributed
from onceward.apps.ads.world.generator import generate
from onceward.apps.ads.world.truth import truth

WAYS = ("join", "function")
FIELDS = ("id", "type", "user", "store", "ad", "at", "amount")
SCHEMA = "id string, type string, user string, store string, ad string, at bigint, amount bigint"
TOUCH = "clicked boolean, at bigint, id string"
WAITING = "id string, at bigint"
DEADLINE_S = 600.0


class Attribution(StatefulProcessor):
    """What the join says, by hand: touches and waiting orders of one user on one store."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._touches = handle.getListState("touches", TOUCH)
        self._orders = handle.getListState("orders", WAITING)

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        arrived = pd.concat(list(rows))
        touches = arrived[arrived["type"].isin((words.IMPRESSION, words.CLICK))]
        orders = arrived[arrived["type"] == words.ORDER]
        if len(touches):
            self._touches.appendList([(it.type == words.CLICK, int(it.at), it.id) for it in touches.itertuples()])
        if len(orders):
            self._orders.appendList([(it.id, int(it.at)) for it in orders.itertuples()])
            for at in orders["at"]:
                self._handle.registerTimer(int(at))
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        now = expiredTimerInfo.getExpiryTimeInMs()
        touches, orders = list(self._touches.get()), list(self._orders.get())
        due = [it for it in orders if it[1] <= now]
        found = [(name, _owed_to(touches, at)) for name, at in due]
        _put(self._orders, [it for it in orders if it[1] > now])
        _put(self._touches, [it for it in touches if it[1] >= now - words.WINDOW_MS])
        if found:
            yield pd.DataFrame(found, columns=["id", "touch"])

    def close(self) -> None:
        """Nothing is held."""


def _owed_to(touches: list[Any], at: int) -> str | None:
    near = [tuple(it) for it in touches if at - words.WINDOW_MS <= it[1] <= at]
    return str(max(near)[2]) if near else None


def _put(state: Any, items: list[Any]) -> None:
    if items:
        state.put([tuple(it) for it in items])
    else:
        state.clear()


def by_join(orders: DataFrame, events: DataFrame) -> DataFrame:
    return attributed(orders, events).select("id", F.col("touch.id").alias("touch"))


def by_function(orders: DataFrame, events: DataFrame) -> DataFrame:
    both = orders.unionByName(events).na.fill("", ["user", "store"])
    return both.groupBy("user", "store").transformWithStateInPandas(
        Attribution(), "id string, touch string", "append", "eventTime"
    )


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return read.withColumn("time", F.timestamp_millis("at")).withWatermark("time", f"{words.WATERMARK_MS} milliseconds")


def prepare(folder: Path, events: int, per_epoch: int) -> dict[str, str | None]:
    """Files, one per epoch and stream; the answers that must come."""
    made = generate(events, seed=1)
    known = truth(made.records, made.catalogue)
    rows: dict[str, dict[str, Any]] = {}
    for record in made.records:
        name = record.key.decode()
        if name in known.events or name in known.orders:
            rows.setdefault(name, json.loads(record.value or b""))
    ordered = sorted(rows.values(), key=lambda it: it["at"])
    end = {"id": "end", "type": words.HEARTBEAT, "at": made.end_ms + 4 * words.WATERMARK_MS}
    for number, begin in enumerate(range(0, len(ordered) + per_epoch, per_epoch)):
        part = ordered[begin : begin + per_epoch] or [end]
        for name in ("orders", "events"):
            mine = [it for it in part if (it["type"] == words.ORDER) == (name == "orders") or it is end]
            _write(folder / name / f"{number:06d}.parquet", mine, number)
    return {name: it.touch_id for name, it in known.attributed.items()}


def _write(file: Path, rows: list[dict[str, Any]], number: int) -> None:
    file.parent.mkdir(exist_ok=True)
    kinds = {"at": pa.int64(), "amount": pa.int64()}
    columns = {name: pa.array([it.get(name) for it in rows], kinds.get(name, pa.string())) for name in FIELDS}
    pq.write_table(pa.table(columns), file)
    os.utime(file, (number + 1, number + 1))  # the source reads the oldest first


def run(way: str, folder: Path) -> dict[str, Any]:
    """One way, until every order has its answer."""
    expected: dict[str, str | None] = json.loads((folder / "expected.json").read_text())
    spark = ow.session("bench", master="local[2]", **{"spark.sql.shuffle.partitions": "2"})
    spark.sparkContext.setLogLevel("ERROR")
    found: dict[str, str | None] = {}

    def take(batch: DataFrame, _epoch: int) -> None:
        table = batch.toArrow()
        found.update(zip(table["id"].to_pylist(), table["touch"].to_pylist(), strict=True))

    make = by_join if way == "join" else by_function
    answers = make(stream(spark, folder / "orders"), stream(spark, folder / "events"))
    with tempfile.TemporaryDirectory() as checkpoint:
        began = time.monotonic()
        query = answers.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()
        while found.keys() < expected.keys() and query.isActive and time.monotonic() - began < DEADLINE_S:
            time.sleep(0.05)
        seconds = time.monotonic() - began
        progress = query.recentProgress
        query.stop()
    if failed := query.exception():
        raise failed
    right = {name: touch for name, touch in found.items() if name in expected} == expected
    rows = max(sum(int(it["numRowsTotal"]) for it in each["stateOperators"]) for each in progress)
    spark.stop()
    return {"way": way, "seconds": seconds, "exact": right, "state_rows": rows}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--events", type=int, default=60_000)
    options.add_argument("--epoch", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--json", action="store_true")
    options.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.way:
        print(json.dumps(run(given.way, given.folder)))
        return
    ways = WAYS if importlib.util.find_spec("google.protobuf") else WAYS[:1]
    if ways != WAYS:
        print("the function is left out: it needs protobuf (pip install protobuf)")
    with tempfile.TemporaryDirectory() as folder:
        expected = prepare(Path(folder), given.events, given.epoch)
        (Path(folder) / "expected.json").write_text(json.dumps(expected))
        results = [_apart(way, folder) for _ in range(given.rounds) for way in ways]
    records = given.events + len(expected)
    for way in ways:
        mine = [it for it in results if it["way"] == way]
        seconds = statistics.median(it["seconds"] for it in mine)
        right = "exact" if all(it["exact"] for it in mine) else "WRONG: no result"
        print(f"{way:10} {records / seconds:10,.0f} records/s   {mine[0]['state_rows']:,} rows of state   {right}")
    if given.json:
        print(json.dumps({"bench": "attribution", "records": records, "results": results, **circumstances()}))


def _apart(way: str, folder: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.attribution", "--way", way, "--folder", folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    main()
