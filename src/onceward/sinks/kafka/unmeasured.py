"""Rows on their way to Python in batches that Spark does not measure.

After each row Spark asks how large its Arrow batch has become, which takes a sixth of the JVM's time for a row of 100
bytes. It need not where no row is large: then the bound on a batch's rows bounds its bytes. A larger row ends the job
before its batch is sent; nothing of it is visible, and the epoch is redone in batches that are measured.

Only for batches that the streaming query has computed: in any other query Spark puts the look at a row's size below the
expressions that make the row, and computes them, users' functions too, a second time.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame

BYTES: Final = 64 << 20  # of a batch, as Spark's own bound
SIZE: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
NO_LIMIT: Final = str((1 << 31) - 1)
LARGE: Final = "onceward: a row is too large for batches that are not measured"
BOUNDED: Final = frozenset({"partition", "timestamp", "topic"})  # columns that are always small
LENGTHS: Final = ("key", "value")


def can_be_unmeasured(columns: Collection[str], others: Collection[str]) -> bool:
    """Whether keys and values are all that can be large. others: columns of ours."""
    return set(columns) <= {*LENGTHS, *BOUNDED, *others}


@contextmanager
def unmeasured(rows: DataFrame) -> Iterator[DataFrame]:
    """The same rows; jobs over them are to be run inside of the block."""
    conf = rows.sparkSession.conf
    most, before = int(conf.get(ROWS) or 0), conf.get(SIZE)
    if most <= 0 or before is None:
        yield rows
        return
    size = " + ".join(f"coalesce(octet_length({it}), 0)" for it in LENGTHS if it in rows.columns)
    conf.set(SIZE, NO_LIMIT)
    try:
        yield rows.where(f"if({size} > {BYTES // most}, raise_error('{LARGE}'), true)")
    finally:
        conf.set(SIZE, before)


def was_too_large(error: Exception) -> bool:
    """Whether a job ended because of such a row."""
    return LARGE in str(error)
