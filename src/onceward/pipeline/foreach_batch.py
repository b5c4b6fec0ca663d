"""Spark's foreachBatch with one session for the whole query. PySpark makes one for every batch, in ten calls."""

from collections.abc import Callable
from typing import Any, Final

from py4j.java_gateway import java_import
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

PACKAGE: Final = "org.apache.spark.sql.execution.streaming.sources"
Run = Callable[[DataFrame, int], None]


class EachBatch:
    """What the JVM calls."""

    def __init__(self, spark: SparkSession, run: Run) -> None:
        self._context, self._run = spark.sparkContext, run
        self._session: SparkSession | None = None  # the query's own, a copy of the one that it was started from

    def call(self, batch: Any, number: int) -> None:
        """One micro-batch; what is raised here stops the query."""
        if self._session is None:
            self._session = SparkSession(self._context, batch.sparkSession())
        self._run(DataFrame(batch, self._session), number)

    class Java:
        """Read by py4j."""

        implements: Final = (f"{PACKAGE}.PythonForeachBatchFunction",)


def for_each_batch(writer: DataStreamWriter, spark: SparkSession, run: Run) -> DataStreamWriter:
    """The same writer, which will call `run`."""
    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - as PySpark's own foreachBatch
    java_import(gateway.jvm, f"{PACKAGE}.*")
    gateway.jvm.PythonForeachBatchHelper.callForeachBatch(writer._jwrite, EachBatch(spark, run))  # noqa: SLF001
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    return writer
