"""Spark's query of a pipeline, started with the settings that are its own."""

import re
from collections.abc import Mapping
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from onceward.errors import ConfigurationError
from onceward.pipeline.session import write_no_checksums
from onceward.pipeline.state import settings_of

QUICK_LOGS: Final = {
    # Plain rename instead of Hadoop's FileContext, which forks a process each time; only for file: homes. It looks
    # before it renames, so two drivers must never share a folder: each term has its own (docs/decisions/0006, 0013).
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# Spark describes every plan that it runs, for its web page; the long form takes milliseconds of each epoch.
SHORT_PLANS: Final = {"spark.sql.ui.explainMode": "simple"}
ONCE: Final = frozenset({"once", "available-now"})


def start_query(
    writer: DataStreamWriter, spark: SparkSession, checkpoint: str, settings: Mapping[str, str]
) -> StreamingQuery:
    """Start with quick log writes; the session's own settings are back afterwards, the query keeps its copy."""
    quick = QUICK_LOGS if checkpoint.startswith("file:") else {}
    if quick:
        write_no_checksums(spark)
    with settings_of(spark, {**SHORT_PLANS, **quick, **settings}):
        return writer.option("checkpointLocation", checkpoint).start()


def triggered(writer: DataStreamWriter, trigger: str | None) -> DataStreamWriter:
    """When epochs begin: as fast as possible, at an interval, or once for all there is."""
    if trigger is None:
        return writer
    if trigger in ONCE:
        return writer.trigger(availableNow=True)
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|m)\s*", trigger)
    if not match:
        raise ConfigurationError(f"trigger {trigger!r} is not known; give '1s', '500ms', '2m' or 'once'")
    unit = {"ms": "milliseconds", "s": "seconds", "m": "minutes"}[match[2]]
    return writer.trigger(processingTime=f"{match[1]} {unit}")
