"""The Spark jobs of a Kafka epoch: the long way over tasks, and the check that none of them ran twice."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.outcome import Outcome, PartitionOutcome, Span, TopicPartition
from onceward.errors import revive
from onceward.sinks.kafka import tasks
from onceward.sinks.kafka.tasks import Work
from onceward.sinks.kafka.turns import turns
from onceward.sinks.parcel import packed

STATUS_TIMEOUT_S: Final = 10.0  # Spark's listener bus is asynchronous; a job's end is known within milliseconds


class Poisoned(Exception):
    """A task or stage of the epoch failed or ran twice, so the transaction may hold wrong records."""


class NotPreserved(Exception):
    """Two tasks wrote to one partition: the rows are not one task per partition."""


def write(rows: DataFrame, work: Work) -> Outcome:
    """Encode in place, ship record batches, one writer per partition."""
    with packed(rows.sparkSession, work) as parcel:
        shipped = rows.mapInArrow(partial(tasks.encode_rows, parcel), tasks.SHIPPED)
        owned = shipped.repartitionById(work.writers, "writer")
        return _run(owned.mapInArrow(partial(tasks.write_batches, parcel), tasks.REPORT))


def write_in_turns(rows: DataFrame, work: Work) -> Outcome:
    """No shuffle either: tasks share this machine, and take turns at a partition."""
    with turns(work.catalog) as shared, packed(rows.sparkSession, replace(work, turns=shared)) as parcel:
        return _run(rows.mapInArrow(partial(tasks.encode_and_write_in_turns, parcel), tasks.REPORT), shared=True)


def write_preserved(rows: DataFrame, work: Work) -> Outcome:
    """No shuffle: each task writes the partitions it has, and no two tasks may have the same."""
    with packed(rows.sparkSession, work) as parcel:
        return _run(rows.mapInArrow(partial(tasks.encode_and_write, parcel), tasks.REPORT))


def digest(rows: DataFrame, work: Work) -> Outcome:
    """Run the rows and add up their digests; nothing is written, so repeated tasks do no harm."""
    with packed(rows.sparkSession, work) as parcel:
        return _outcome(rows.mapInArrow(partial(tasks.digest_rows, parcel), tasks.REPORT).toArrow())


def _run(reports: DataFrame, *, shared: bool = False) -> Outcome:
    with _tagged(reports.sparkSession) as tag:
        table = reports.toArrow()
    outcome = _outcome(table)
    if not shared:
        _require_one_writer(table)
    require_untouched(reports.sparkSession, tag)
    return outcome


def _outcome(table: pa.Table) -> Outcome:
    parts = []
    for row in table.to_pylist():
        if row["error"] is not None:
            raise revive(row["error"], row["message"])
        place = TopicPartition(row["topic"], row["partition"])
        span = Span(row["first"], row["end"]) if row["first"] is not None else None
        parts.append((place, PartitionOutcome(row["rows"], row["digest"] % (1 << 64), span)))
    return Outcome.of(parts)


def _require_one_writer(table: pa.Table) -> None:
    """Two writers of one partition share its sequence numbers."""
    writers: dict[TopicPartition, int] = {}
    for row in table.to_pylist():
        place = TopicPartition(row["topic"], row["partition"])
        if writers.setdefault(place, row["task"]) != row["task"]:
            raise NotPreserved(f"{place} was written by tasks {writers[place]} and {row['task']}")


@contextmanager
def _tagged(spark: SparkSession) -> Iterator[str]:
    tag = f"onceward-{uuid.uuid4().hex}"
    context = spark.sparkContext
    context.addJobTag(tag)
    try:
        yield tag
    finally:
        context.removeJobTag(tag)


def require_untouched(spark: SparkSession, tag: str) -> None:
    """Raise `Poisoned` unless every task of the tagged jobs ran exactly once.

    A stage that Spark runs again after lost shuffle files starts its tasks at attempt 0, and a writer there
    would send other bytes under known sequences, which brokers drop silently. Only the driver can see
    it. The status store is fed in order, so once it knows that a job has ended it knows all its tasks.
    """
    context = spark.sparkContext
    store = context._jsc.sc().statusTracker()  # noqa: SLF001 - the Python tracker knows no job tags
    deadline = time.monotonic() + STATUS_TIMEOUT_S
    while True:
        jobs = [store.getJobInfo(number).get() for number in store.getJobIdsForTag(tag)]
        if jobs and all(job.status().name() != "RUNNING" for job in jobs):
            break
        if time.monotonic() > deadline:
            raise Poisoned(f"Spark did not tell within {STATUS_TIMEOUT_S:.0f} s how the epoch's tasks ended")
        time.sleep(0.001)
    for job in jobs:
        if job.status().name() != "SUCCEEDED":
            raise Poisoned(f"Spark job {job.jobId()} has status {job.status().name()}")
        for stage_id in job.stageIds():
            found = store.getStageInfo(stage_id)
            if found.isEmpty():
                raise Poisoned(f"Spark has forgotten stage {stage_id} (raise spark.ui.retainedStages)")
            _require_one_run(found.get())


def _require_one_run(stage: Any) -> None:
    """A skipped stage, whose output was there already, has no tasks at all."""
    done, failed, attempt = stage.numCompletedTasks(), stage.numFailedTasks(), stage.currentAttemptId()
    if attempt > 0:
        raise Poisoned(f"stage {stage.stageId()} ran again (attempt {attempt})")
    if failed > 0:
        raise Poisoned(f"{failed} task(s) of stage {stage.stageId()} failed")
    if done not in (0, stage.numTasks()):
        raise Poisoned(f"stage {stage.stageId()}: {done} of {stage.numTasks()} tasks are known to have ended")
