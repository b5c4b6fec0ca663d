"""A Spark in a process of its own, so that each system has the session it would have: ours, or Spark's own sink.

    python -m bench.job SYSTEM --bootstrap B --folder D

SYSTEM: onceward, onceward-preserve, onceward-lz4, onceward-rows (a copy computed by Spark, as any other query is),
onceward-shuffle (tasks ship batches to a partition's one writer, as
on a cluster), onceward-standby (onceward, of which a second process waits for the first one's end), spark (Spark's own
Kafka sink at its defaults), spark-tuned (the same under the settings that Onceward uses). It reads requests from
standard input, one JSON object in a line, and answers each with one (bench/workers.py).
"""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming.query import StreamingQuery

import onceward as ow
from bench import targets
from bench.answering import Answers, answer_all
from bench.content import BLOCK, DIGITS, KEY_BYTES, KEYS, SPREAD, STEP
from onceward.jars import connector_jars
from onceward.pipeline.warming import warm_up
from onceward.sinks.kafka import KafkaSink
from onceward.sinks.kafka import sink as kafka_sink

SYSTEMS = (
    "onceward", "onceward-rows", "onceward-shuffle", "onceward-preserve", "onceward-lz4", "onceward-standby", "spark",
    "spark-tuned",
)  # fmt: skip
Running = ow.Query | StreamingQuery


# Spark keeps the consumers of queries that have ended, with what they have fetched: 64 of them, for five minutes. Here
# each round is a query, and the last rounds' leftovers would fill half the heap.
CONSUMERS_KEPT = {"spark.kafka.consumer.cache.capacity": "8"}


def session(system: str) -> SparkSession:
    if system != "spark":
        return ow.session("bench", master="local[2]", **CONSUMERS_KEPT)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers miss pyarrow
    builder = SparkSession.builder.appName("bench").master("local[2]")
    for name, value in {"spark.jars": ",".join(map(str, connector_jars())), **CONSUMERS_KEPT}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


class Job:
    """Starts queries from topic to topic."""

    def __init__(self, system: str, bootstrap: str, folder: Path) -> None:
        self.system, self.bootstrap, self.folder = system, bootstrap, folder
        self.ours = system.startswith("onceward")
        self.spark = session(system)
        self.spark.sparkContext.setLogLevel("ERROR")
        self._served: Running | None = None
        if system == "onceward-rows":
            KafkaSink._copied = lambda *_: None  # type: ignore[assignment, method-assign] # noqa: SLF001
        if system == "onceward-shuffle":
            kafka_sink.is_local = lambda _: False  # type: ignore[assignment]

    def answers(self) -> Answers:
        asked = (self.drain, self.write, self.serve, self.status, self.stop)
        return {it.__name__: it for it in asked}

    def drain(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Copy a topic to its end."""
        return self._timed(lambda: self._start(self._read(asked), asked, once=True))

    def write(self, asked: dict[str, Any]) -> dict[str, Any]:
        """So many made rows into a topic: nothing is read."""
        return self._timed(lambda: self._start(self._made(asked), asked, once=True))

    def serve(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Copy a topic until told to stop."""
        self._served = self._start(self._read(asked), asked, once=False)
        return {}

    def status(self, _asked: dict[str, Any]) -> dict[str, Any]:
        """How many epochs the served query has committed."""
        assert isinstance(self._served, ow.Query)
        return {"epochs": self._served.epochs_committed}

    def stop(self, _asked: dict[str, Any]) -> dict[str, Any]:
        assert self._served is not None
        self._served.stop()
        return {}

    def _timed(self, start: Any) -> dict[str, Any]:
        began = time.perf_counter()
        query = start()
        if not isinstance(query, ow.Query):
            query.awaitTermination()
            return {"seconds": time.perf_counter() - began, "epochs_ms": batches(query), "commits_ms": []}
        query.wait()
        seconds = time.perf_counter() - began
        entries = list(query.epochs)
        return {
            "seconds": seconds,
            "epochs_ms": batches(query.spark_query),
            "commits_ms": [it.milliseconds.get("decide", 0.0) for it in entries],
            "sinks_ms": [{name: it.sinks[name].milliseconds for name in it.sinks} for it in entries],
        }

    def _read(self, asked: dict[str, Any]) -> DataFrame:
        most, source = asked.get("epoch_records"), asked["source"]
        if self.system != "spark":
            frame = ow.read_kafka(self.spark, self.bootstrap, topics=[source], max_records_per_epoch=most)
        else:
            reader = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self.bootstrap)
            reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
            frame = (reader.option("maxOffsetsPerTrigger", most) if most else reader).load()
        return with_function(frame, asked.get("function", ""))

    def _made(self, asked: dict[str, Any]) -> DataFrame:
        """The rows of bench/content.py, made by Spark."""
        reader = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", asked["records"])
        rows = reader.option("numPartitions", 2).load()
        letters = asked["size"] - KEY_BYTES - DIGITS
        block = f"X'{bytes(BLOCK).hex()}'"
        begin = f"cast(value * {STEP} % {len(BLOCK) - letters} as int) + 1"
        return rows.selectExpr(
            f"cast('k' || lpad(cast(value * {SPREAD} % {KEYS} as string), {KEY_BYTES - 1}, '0') as binary) as key",
            f"cast(lpad(cast(value as string), {DIGITS}, '0') as binary) || substring({block}, {begin}, {letters}) "
            "as value",
        )

    def _start(self, frame: DataFrame, asked: dict[str, Any], *, once: bool) -> Running:
        target, interval = asked["target"], asked.get("trigger")
        home = self.folder / asked.get("home", f"{self.system}-{target}")
        if "sinks" in asked:
            return self._into(frame, home, asked)
        if self.ours:
            preserve = self.system.endswith("preserve")
            columns = ["key", "value", "partition"] if preserve else ["key", "value"]
            sink = ow.KafkaSink(
                self.bootstrap,
                topic=target,
                partitioning="preserve" if preserve else "key",
                compression="lz4" if self.system.endswith("lz4") else "none",
                **({"small_epoch_bytes": asked["small_epoch_bytes"]} if "small_epoch_bytes" in asked else {}),
            )
            rows, guarantee = frame.select(*columns), asked.get("guarantee", "exactly-once")
            pipeline = ow.Pipeline(home.name, home=home, source=rows, guarantee=guarantee).to(sink)
            if asked.get("standby"):
                warm_up(self.spark)
                pipeline.stand_by()
            return pipeline.start(trigger="once" if once else interval)
        writer = frame.select("key", "value").writeStream.format("kafka")
        writer = writer.option("kafka.bootstrap.servers", self.bootstrap).option("topic", target)
        writer = writer.option("checkpointLocation", str(home))
        if once:
            writer = writer.trigger(availableNow=True)
        elif interval:
            writer = writer.trigger(processingTime=interval)
        return writer.start()

    def _into(self, frame: DataFrame, home: Path, asked: dict[str, Any]) -> Running:
        """Sinks of several kinds; of Spark's own, files."""
        name = asked["target"]
        if not self.ours:
            writer = frame.selectExpr(*targets.COLUMNS).writeStream.format("parquet")
            writer = writer.option("checkpointLocation", str(home)).option("path", str(self.folder / f"files-{name}"))
            return writer.trigger(availableNow=True).start()
        pipeline = ow.Pipeline(home.name, home=home, source=frame, guarantee=asked.get("guarantee", "exactly-once"))
        for kind in asked["sinks"]:
            made = targets.sink(kind, name, self.folder, self.bootstrap, asked.get("dsn", ""))
            pipeline.to(made, rows=targets.rows_for(kind))
        return pipeline.start(trigger="once")


def batches(query: StreamingQuery) -> list[float]:
    """What each epoch took, Spark's planning and logs included, in milliseconds."""
    return [it["durationMs"]["triggerExecution"] for it in query.recentProgress if it["numInputRows"]]


def with_function(frame: DataFrame, kind: str) -> DataFrame:
    """The Python function of P3: letters become capitals; plain, or over whole columns."""
    if not kind:
        return frame
    value = F.col("value").cast("string")
    if kind == "plain":
        return frame.withColumn("value", F.udf(str.upper, "string")(value))
    if kind == "pandas":
        return frame.withColumn("value", F.pandas_udf(lambda it: it.str.upper(), "string")(value))
    import pyarrow.compute as pc

    return frame.withColumn("value", F.arrow_udf(pc.utf8_upper, "string")(value))


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("system", choices=SYSTEMS)
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--folder", type=Path, required=True)
    given = options.parse_args()
    answer_all(lambda: Job(given.system, given.bootstrap, given.folder).answers())


if __name__ == "__main__":
    main()
