"""Spark's classes in a form the JVM can map into memory: a driver starts, and recovers, in half the time.

`onceward jars fetch` makes the archive once for this Java and this Spark. The JVM checks that it fits and does without
it if it does not; so nothing depends on it but the time (docs/decisions/0010).
"""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyspark

from onceward.errors import JarsUnavailable
from onceward.jars import classes, java_command
from onceward.jars.spark import spark_jars

TIMEOUT_S: Final = 300.0
# What every driver comes through: SQL, Arrow, a stateful stream with Python workers.
WARM_UP: Final = """
import sys
from pyspark.sql import functions as F
from onceward.pipeline.session import end, session

spark = session("onceward-archive", master="local[2]", **{"spark.driver.extraJavaOptions": sys.argv[1]})
spark.range(10).selectExpr("id", "id % 2 as k").groupBy("k").count().toArrow()
source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
counts = source.groupBy(F.expr("value % 2")).count()
writer = counts.writeStream.outputMode("update").foreachBatch(lambda rows, epoch: rows.toArrow())
writer.trigger(availableNow=True).option("checkpointLocation", sys.argv[2]).start().awaitTermination()
spark.range(4).mapInArrow(lambda batches: batches, "id long").collect()
end(spark, within_s=240)  # it writes the archive when it ends
"""


def archive() -> Path:
    """Where this Java's and this Spark's archive is kept, made or not."""
    jars = _jars()
    return classes.archive_of(java_command().resolve(), [jars, jars.stat().st_mtime_ns, pyspark.__version__])


def options() -> list[str]:
    """For the JVM; none as long as there is no archive."""
    return classes.use(archive())


def make(report: Callable[[str], None]) -> Path:
    """Run Spark once and keep the classes that it has loaded."""

    def run(fresh: Path, folder: Path) -> str:
        report("archiving Spark's classes, so that drivers start in half the time (once, about half a minute)")
        command = [sys.executable, "-c", WARM_UP, " ".join(classes.make_at(fresh)), f"{folder}/checkpoint"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=folder)
        except subprocess.TimeoutExpired:
            fresh.unlink(missing_ok=True)
            return f"Spark did not start and end within {TIMEOUT_S:.0f} s"
        if done.returncode != 0:
            fresh.unlink(missing_ok=True)  # of a run that broke off
        return done.stderr[-2000:] or done.stdout[-2000:]

    return classes.make(archive(), _jars(), "Spark's", run)


def _jars() -> Path:
    found = spark_jars()
    if found is None:
        raise JarsUnavailable("Spark's own jars are nowhere: neither in SPARK_HOME nor inside PySpark")
    return found
