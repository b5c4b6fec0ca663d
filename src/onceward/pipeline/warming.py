"""A standby's JVM does what an epoch does, so that the first one after a take-over finds it loaded and compiled."""

import tempfile
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from onceward.sinks.collecting import arrow_schema, collect_as_planned

BATCHES: Final = 20  # small ones; then most of what an epoch runs is compiled


def warm_up(spark: SparkSession) -> None:
    """A short stream of made rows into nothing; it takes some seconds, which nobody waits for."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).option("numPartitions", 2).load()
    rows = source.selectExpr("cast(value as string) as key", "cast(cast(value as string) as binary) as value")

    def collect(batch: DataFrame, number: int) -> None:
        collect_as_planned(batch, arrow_schema(batch))
        batch.selectExpr("*", "xxhash64(key, value) as hash").toArrow()
        done.append(number)

    done: list[int] = []
    with tempfile.TemporaryDirectory(prefix="onceward-standby-") as folder:
        query = rows.writeStream.foreachBatch(collect).option("checkpointLocation", folder).start()
        try:
            while len(done) < BATCHES and query.isActive:
                query.awaitTermination(0.1)  # type: ignore[arg-type]
        finally:
            query.stop()
