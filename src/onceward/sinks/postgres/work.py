"""Copying an epoch's rows, in the driver or in a task of Spark: one COPY, one transaction, one report."""

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
from psycopg import Connection
from pyspark import TaskContext

from onceward import crashpoints
from onceward.epoch.outcome import PartitionOutcome
from onceward.errors import EpochFailed
from onceward.postgres.options import Options
from onceward.secret import Exposure
from onceward.sinks.postgres import staging
from onceward.sinks.postgres.binary import SIGNATURE, TRAILER, Coding, encode
from onceward.sinks.postgres.failures import translated
from onceward.sinks.postgres.names import Table
from onceward.sinks.postgres.session import Row, transaction
from onceward.sinks.postgres.shape import Shape
from onceward.sinks.rows import Report, part_of

PASSING: Final = Table("pg_temp", "onceward_rows")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The COPY and the statements around it, as SQL. Small: it is shipped with each task."""

    epoch: int
    copy: bytes
    codings: tuple[Coding, ...]
    before: bytes | None = None
    after: bytes | None = None
    tagged: bool = False
    once: bool = False  # better not at all than twice: at-most-once


def staging_job(stage: Table, shape: Shape, key: Sequence[str], epoch: int, *, tagged: bool) -> Job:
    """Into a staging table, which is made in the same transaction unless tasks share it."""
    create = staging.create(stage, shape.layout, shape.target, key, tagged=tagged)
    return Job(
        epoch=epoch,
        copy=staging.copy(stage, shape.layout.names, tagged=tagged).as_bytes(),
        codings=shape.layout.codings,
        before=None if tagged else create.as_bytes(),
        tagged=tagged,
    )


def direct_job(shape: Shape, key: Sequence[str], epoch: int, *, once: bool) -> Job:
    """Straight into the target; an upsert passes through a temporary table."""
    names, target = shape.layout.names, shape.target.table
    codings = shape.layout.codings
    if not key:
        return Job(epoch=epoch, copy=staging.copy(target, names).as_bytes(), codings=codings, once=once)
    return Job(
        epoch=epoch,
        copy=staging.copy(PASSING, names).as_bytes(),
        codings=codings,
        before=staging.create_temporary(PASSING, shape.layout, shape.target, key).as_bytes(),
        after=staging.move(PASSING, None, target, names, key).as_bytes(),
        once=once,
    )


@dataclass(frozen=True, slots=True)
class CopyTask:
    """What runs in a task: a connection of its own, and a try id that no other run of the task has."""

    job: Job
    options: Options

    @property
    def exposure(self) -> Exposure:
        """What somebody who reads it learns of secrets."""
        return self.options.exposure

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[Report]:
        task = TaskContext.get()
        if self.job.once and task is not None and task.attemptNumber() > 0:
            raise EpochFailed(
                f"epoch {self.job.epoch}: task {task.partitionId()} failed after it may have written; under "
                "at-most-once it is not run again"
            )
        doing = f"copying rows of epoch {self.job.epoch}"
        with translated(doing, blame_rows=True), self.options.connect() as connection:
            return [copy_rows(connection, self.job, batches, "task-writing")]


def copy_rows(connection: Connection[Row], job: Job, batches: Iterator[pa.RecordBatch], crash_point: str) -> Report:
    """Nothing is done for no rows."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return {"try": None, "rows": 0, "digest": 0}
    # A task may be run again after its COPY is committed: rows are told apart by who wrote them.
    tried = secrets.randbits(63) if job.tagged else None
    tail = b"" if tried is None else tried.to_bytes(8, "big")
    total = PartitionOutcome(0, 0)
    with transaction(connection) as cursor:
        if job.before is not None:
            cursor.execute(job.before)
        with cursor.copy(job.copy) as copy:
            copy.write(SIGNATURE)
            for batch in chain((first,), filled):
                for data in encode(batch, job.codings, tail):
                    copy.write(data)
                total += part_of(batch)
            copy.write(TRAILER)
        assert cursor.rowcount == total.rows, f"{total.rows} rows sent, {cursor.rowcount} copied"
        if job.after is not None:
            cursor.execute(job.after)
    crashpoints.reach(crash_point, job.epoch)
    return {"try": tried, "rows": total.rows, "digest": total.digest}
