"""The job that is killed: one Spark application, one computation, two sinks that share every crash.

Run as `python -m onceward.demo.job`. It ends by SIGTERM, cleanly, or with the process that started it.
"""

import argparse
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import onceward as ow
from onceward.demo.topics import OURS, PARTITIONS, PAYMENTS, SPARKS

LOOK_S: Final = 0.2
# Small epochs, so that a kill finds one at every stage; large enough to catch up after a restart.
RECORDS_PER_EPOCH: Final = 4_000
TRIGGER_MS: Final = 500


def settings(folder: Path) -> dict[str, str]:
    """A Spark that starts quickly, since it dies soon, and leaves its litter in the demo's own folder."""
    litter = folder / "tmp"
    litter.mkdir(exist_ok=True)
    jvm = (
        "-XX:TieredStopAtLevel=1",  # no time for the optimising compiler
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        f'"-Djava.io.tmpdir={litter}"',
    )
    return {
        "spark.driver.extraJavaOptions": " ".join(jvm),
        "spark.local.dir": str(litter),
        "spark.sql.shuffle.partitions": str(PARTITIONS),
    }


def book(key: tuple[str], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """The account's balance after each payment. The balance so far is the state."""
    rows = pd.concat(list(frames)).sort_values("seq", kind="stable")
    (before,) = state.get if state.exists else (0,)
    balances = before + rows["amount"].cumsum()
    state.update((int(balances.iloc[-1]),))
    yield pd.DataFrame(
        {"account": key[0], "id": rows["id"], "seq": rows["seq"], "amount": rows["amount"], "balance": balances}
    )


def bookings(spark: SparkSession, bootstrap: str) -> DataFrame:
    """Payments in, one record with the running balance out for each: the same frame for both sinks."""
    events = ow.read_kafka(spark, bootstrap, topics=[PAYMENTS], max_records_per_epoch=RECORDS_PER_EPOCH)
    fields = sf.from_json(sf.col("value").cast("string"), "id string, seq long, amount long")
    booked = (
        events.select(sf.col("key").cast("string").alias("account"), fields.alias("payment"))
        .select("account", "payment.*")
        .groupBy("account")
        .applyInPandasWithState(
            book,
            outputStructType="account string, id string, seq long, amount long, balance long",
            stateStructType="balance long",
            outputMode="append",
            timeoutConf=GroupStateTimeout.NoTimeout,
        )
    )
    value = sf.to_json(sf.struct("id", "seq", "amount", "balance")).alias("value")
    return booked.select(sf.col("account").alias("key"), value)


def start_ours(frame: DataFrame, bootstrap: str, folder: Path) -> ow.Query:
    pipeline = ow.Pipeline("demo-balances", home=folder / "onceward", source=frame)
    return pipeline.to(ow.KafkaSink(bootstrap, topic=OURS)).start(trigger=f"{TRIGGER_MS}ms")


def start_sparks(frame: DataFrame, bootstrap: str, folder: Path) -> StreamingQuery:
    """The contrast: what Spark's documentation says to write."""
    return (
        frame.writeStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", SPARKS)
        .option("checkpointLocation", str(folder / "spark"))
        .outputMode("append")
        .trigger(processingTime=f"{TRIGGER_MS} milliseconds")
        .start()
    )


def _end_with_parent() -> None:
    """Standard input is a pipe that only the demo holds: its end is the demo's end, even by kill -9."""
    while os.read(0, 1):  # unbuffered: Python cannot end while a thread waits in sys.stdin
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--folder", type=Path, required=True)
    given = options.parse_args()
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    threading.Thread(target=_end_with_parent, daemon=True).start()

    spark = ow.session("onceward-demo", master="local[2]", **settings(given.folder))
    frame = bookings(spark, given.bootstrap)
    ours = start_ours(frame, given.bootstrap, given.folder)
    sparks = start_sparks(frame, given.bootstrap, given.folder)
    while not asked.wait(LOOK_S):
        if not ours.is_active:
            ours.wait()
        if not sparks.isActive:
            sparks.awaitTermination()
    ours.stop()
    sparks.stop()
    spark.stop()


if __name__ == "__main__":
    main()
