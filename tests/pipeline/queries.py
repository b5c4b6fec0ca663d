"""Stateful queries of every kind over files, one file for each epoch, for tests that look at their state."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped] # Spark's own door to Python state speaks it
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from onceward.pipeline.state import State, settings_of

SCHEMA = "key string, n long, at timestamp"
BEGIN = 1_700_000_000


class Everything(StatefulProcessor):
    """A value, a list, a map and a timer for each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._total = handle.getValueState("total", "n long")
        self._seen = handle.getListState("seen", "n long")
        self._thirds = handle.getMapState("thirds", "third long", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        total = self._total.get()[0] if self._total.exists() else 0
        for number in (int(it) for frame in rows for it in frame["n"]):
            total += number
            self._seen.appendValue((number,))
            self._thirds.updateValue((number % 3,), (number,))
        self._total.update((total,))
        self._handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 10**12)
        thirds = sum(value[0] for value in self._thirds.values())
        yield pd.DataFrame({"key": [key[0]], "told": [f"{total} {len(list(self._seen.get()))} {thirds}"]})

    def close(self) -> None:
        """Nothing is held."""


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return read.withWatermark("at", "1 hour")


def deduplicated(events: DataFrame) -> DataFrame:
    return events.dropDuplicates(["key", "n"])


def windowed(events: DataFrame) -> DataFrame:
    return events.groupBy(F.window("at", "10 minutes"), "key").agg(
        F.sum("n").alias("total"), F.count("*").alias("many")
    )


def sessions(events: DataFrame) -> DataFrame:
    return events.groupBy(F.session_window("at", "10 minutes"), "key").agg(F.sum("n").alias("total"))


def joined(events: DataFrame) -> DataFrame:
    near = F.expr("a.key = b.key and a.n <= b.n and a.at between b.at - interval 1 minute and b.at + interval 1 minute")
    return events.alias("a").join(events.alias("b"), near).select("a.key", "a.n", F.col("b.n").alias("m"))


def own(events: DataFrame) -> DataFrame:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # workers have no tests
    return events.groupBy("key").transformWithStateInPandas(
        Everything(), "key string, told string", "update", "eventTime"
    )


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "deduplicated": deduplicated,
    "windowed": windowed,
    "sessions": sessions,
    "joined": joined,
    "own": own,
}
MODES = {"windowed": "update", "own": "update"}


def feed(folder: Path, number: int, keys: int = 7, rows: int = 30) -> None:
    """The file of one epoch."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = range(rows)
    columns = {
        "key": [f"k{(number * 3 + it) % keys}" for it in numbers],
        "n": [(number * 11 + it) % 17 for it in numbers],
        "at": pa.array([(BEGIN + number * 60 + it) * 1_000_000 for it in numbers], pa.timestamp("us", "UTC")),
    }
    file = folder / f"{number:04d}.parquet"
    pq.write_table(pa.table(columns), file)
    os.utime(file, (number + 1, number + 1))  # the source reads the oldest first


def run(spark: SparkSession, query: str, folder: Path, checkpoint: Path, state: State | None = None) -> list[str]:
    """All there is, into a plain Spark query; what came out, sorted."""
    out: list[str] = []

    def take(batch: DataFrame, _epoch: int) -> None:
        out.extend(map(str, batch.collect()))

    writer = QUERIES[query](stream(spark, folder)).writeStream.outputMode(MODES.get(query, "append")).foreachBatch(take)
    with settings_of(spark, state.settings() if state is not None else {}):
        started = writer.trigger(availableNow=True).option("checkpointLocation", str(checkpoint)).start()
    started.awaitTermination(120)
    return sorted(out)
