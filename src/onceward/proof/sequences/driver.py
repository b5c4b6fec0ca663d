"""The process that is killed: `python -m onceward.proof.sequences.driver`. It serves one order after the other.

Orders come on standard input, answers go to standard output; it ends with whoever holds the other side. With
`--no-spark` it serves those that need none: savepoints are files.
"""

import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import onceward as ow
from onceward import crashpoints
from onceward.epoch.checkpoint import offsets_of
from onceward.epoch.home import Home
from onceward.errors import OncewardError
from onceward.pipeline.opening import now
from onceward.pipeline.session import session
from onceward.proof.chaos.job import settings
from onceward.proof.sequences.orders import Answer, Order, Target
from onceward.savepoint import keeping
from onceward.savepoint.creating import create
from onceward.savepoint.manifest import load
from onceward.savepoint.place import Place
from onceward.savepoint.verifying import verify

if TYPE_CHECKING:
    from onceward.epoch.contract import TwoPhaseCommitSink

READY: Final = "READY"
NO_SPARK: Final = "--no-spark"
RUN_S: Final = 120.0  # a run is some epochs of tens of records
WARM_EPOCHS: Final = 4
POLL_S: Final = 0.05
QUICK: Final = {
    "spark.sql.streaming.stateStore.maintenanceInterval": "5s",
    "spark.default.parallelism": "2",
}


def pipeline(spark: SparkSession, order: Order) -> ow.Pipeline:
    """Ids and payloads without repetitions, into every sink that is asked for."""
    records = ow.read_kafka(spark, order.bootstrap, topics=[order.topic], max_records_per_epoch=order.limit)
    values = records.selectExpr("cast(value as string) as value")
    rows = values.selectExpr("cast(split_part(value, '|', 1) as long) as id", "split_part(value, '|', 2) as payload")
    unique, state = rows.dropDuplicates(["id"]), ow.State(order.backend)
    made = ow.Pipeline(order.name, home=order.home, source=unique, state=state, retain=order.retain)
    for target in order.sinks:
        made.to(_sink(order, target), rows=_as_records if target.kind == "kafka" else None, name=target.kind)
    return made


def _as_records(rows: DataFrame) -> DataFrame:
    value = sf.concat_ws("|", sf.col("id").cast("string"), sf.col("payload"))
    return rows.select(sf.col("id").cast("string").alias("key"), value.alias("value"))


def _sink(order: Order, target: Target) -> "TwoPhaseCommitSink":
    if target.kind == "kafka":
        return ow.KafkaSink(order.bootstrap, topic=target.place)
    if target.kind == "postgres":
        return ow.PostgresSink(order.dsn, table=target.place, create=True)
    return ow.FileSink(target.place, format="json")


def start(spark: SparkSession, order: Order) -> Answer:
    """A start, perhaps from a savepoint, until all that is there has been read."""
    query = pipeline(spark, order).start(
        trigger="once",
        from_savepoint=order.savepoint or None,
        partitions=order.partitions,
        new_lineage=order.knowingly,
    )
    if not query.wait(RUN_S):
        query.spark_query.stop()
        return Answer(refused="Stuck", message=f"the input was not read within {RUN_S:.0f} s")
    return Answer(epochs=query.epochs_committed)


def reset(spark: SparkSession, order: Order) -> Answer:
    offsets = {(order.topic, number): offset for number, offset in enumerate(order.offsets)}
    pipeline(spark, order).reset(offsets=offsets or None, from_group=order.from_group)
    return Answer()


def save(_: SparkSession | None, order: Order) -> Answer:
    """A savepoint of what is there; it is read through once."""
    place = create(Home.at(Path(order.home)), to=order.savepoint, now=now)
    verify(place)
    at = {it.partition: offset for text in load(place).entry.positions for it, offset in offsets_of(text).items()}
    return Answer(position=tuple(at[number] for number in sorted(at)))


def delete(_: SparkSession | None, order: Order) -> Answer:
    keeping.delete(Place.at(Path(order.savepoint)))
    return Answer()


def warm_up(spark: SparkSession, folder: Path) -> None:
    """A few epochs of such a query, into nothing: a driver that takes over at once has its classes loaded."""
    made = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).option("numPartitions", 2).load()
    rows = made.selectExpr("value as id", "cast(value as string) as payload").dropDuplicates(["id"])
    done: list[int] = []

    def collect(batch: DataFrame, number: int) -> None:
        batch.selectExpr("*", "xxhash64(id, payload) as hash").toArrow()
        done.append(number)

    query = rows.writeStream.foreachBatch(collect).option("checkpointLocation", str(folder)).start()
    try:
        while len(done) < WARM_EPOCHS and query.isActive:
            query.awaitTermination(POLL_S)  # type: ignore[arg-type] # it takes fractions
    finally:
        query.stop()


OF_FILES: Final[dict[str, Callable[[SparkSession | None, Order], Answer]]] = {"save": save, "delete": delete}
OF_SPARK: Final[dict[str, Callable[[SparkSession, Order], Answer]]] = {
    "run": start, "restore": start, "fork": start, "reset": reset,
}  # fmt: skip


def answer(spark: SparkSession | None, order: Order) -> Answer:
    """Whatever happens, an answer; unless it dies."""
    crashpoints.arm(order.crash_at)
    try:
        if order.kind in OF_FILES:
            return OF_FILES[order.kind](spark, order)
        assert spark is not None
        return OF_SPARK[order.kind](spark, order)
    except OncewardError as error:
        return Answer(refused=type(error).__name__, message=str(error))
    except Exception as error:  # noqa: BLE001 - told, and judged as a violation
        return Answer(refused=type(error).__name__, message=traceback.format_exc()[-3000:])
    finally:
        crashpoints.arm("")


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever else is printed, also by the JVM, goes to the log
    folder = Path(tempfile.mkdtemp(prefix="driver-", dir=os.environ.get("TMPDIR")))
    spark: SparkSession | None = None
    if NO_SPARK not in sys.argv:
        spark = session("onceward-sequences", master="local[2]", **settings(folder), **QUICK)
        warm_up(spark, folder / "warm")
    answers.write(f"{READY}\n")
    answers.flush()
    for line in sys.stdin:
        found = answer(spark, msgspec.json.decode(line, type=Order))
        answers.write(msgspec.json.encode(found).decode() + "\n")
        answers.flush()
    if spark is not None:
        spark.stop()
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
