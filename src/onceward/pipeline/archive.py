"""Spark's classes in a form the JVM can map into memory: a driver starts, and recovers, in half the time.

`onceward jars fetch` makes the archive once for this Java and this Spark. The JVM checks that it fits and does without
it if it does not; so nothing depends on it but the time (docs/decisions/0010).
"""

import hashlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pyspark

from onceward.errors import OncewardError
from onceward.jars import java_command
from onceward.jars.cache import cache_root

FOLDER: Final = "classes"
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
end(spark)
"""


def archive() -> Path:
    """Where this Java's and this Spark's archive is kept, made or not."""
    java, jars = java_command().resolve(), _jars()
    facts = [str(java), str(java.stat().st_mtime_ns), str(jars), str(jars.stat().st_mtime_ns), pyspark.__version__]
    name = hashlib.sha256("|".join(facts).encode()).hexdigest()[:24]
    return cache_root() / FOLDER / f"{name}.jsa"


def options() -> list[str]:
    """For the JVM; none as long as there is no archive."""
    found = archive()
    return [f"-XX:SharedArchiveFile={found}", "-Xshare:auto", "-Xlog:cds=off"] if found.exists() else []


def make(report: Callable[[str], None]) -> Path:
    """Run Spark once and keep the classes that it has loaded."""
    target = archive()
    if target.exists():
        return target
    report("archiving Spark's classes, so that drivers start in half the time (once, about half a minute)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="onceward-archive-", dir=target.parent) as folder:
        fresh = Path(folder) / "classes.jsa"
        jvm = f"-XX:ArchiveClassesAtExit={fresh} -Xlog:cds=off -Xlog:cds+dynamic=off"
        command = [sys.executable, "-c", WARM_UP, jvm, f"{folder}/checkpoint"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, cwd=folder)
        if done.returncode != 0 or not fresh.exists():
            raise OncewardError(f"Spark's classes could not be archived: {done.stderr[-2000:] or done.stdout[-2000:]}")
        _of(target).write_text(str(_jars()))
        fresh.replace(target)
    _tidy_up(target.parent)
    return target


def _jars() -> Path:
    return Path(pyspark.__file__).resolve().parent / "jars"


def _of(archive: Path) -> Path:
    """A file that says whose classes an archive holds."""
    return archive.with_suffix(".txt")


def _tidy_up(folder: Path) -> None:
    """An archive whose Spark is gone (an environment that was deleted) helps nobody, and is large."""
    for note in folder.glob("*.txt"):
        if not Path(note.read_text()).is_dir():
            note.with_suffix(".jsa").unlink(missing_ok=True)
            note.unlink(missing_ok=True)
