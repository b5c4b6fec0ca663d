"""An epoch's rows on their way into a sink: as Arrow, with a hash each, here or in Spark's tasks.

A sink gives a function from record batches to reports. A small epoch is collected and the function runs once, in the
driver; a large one runs it in every task through `mapInArrow`. Spark may run a task again, so what a function writes
must be named by the try that wrote it: only what the returned reports name counts (docs/decisions/0009).
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructField, StructType, VariantType

from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import MODULUS, Outcome, PartitionOutcome
from onceward.errors import InvalidRows, OncewardError, revive
from onceward.sinks.collecting import Collector, Selection, collect_as_planned
from onceward.sinks.parcel import Parcel, packed

HASH: Final = "__onceward_hash"
SMALL_EPOCH_BYTES: Final = 10 << 20
PLACE: Final = "__onceward_place"
FEW_ROWS: Final = 5000  # of an epoch whose tasks are done before code for them would be compiled
LEAST_ROWS: Final = 1024  # that a partition may always give
ASSUMED_ROW_BYTES: Final = 250  # until an epoch has shown how large its rows are
# The lower 33 bits of Spark's id are the row's place in its partition.
PLACED: Final = ("*", f"monotonically_increasing_id() & {(1 << 33) - 1}L as {PLACE}")
# Everything that tells two values apart: fields that are null, and times to the microsecond.
_AS_TEXT: Final = (
    "map('ignoreNullFields', 'false', 'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX', "
    "'timestampNTZFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS')"
)
_REPORT: Final = pa.schema([("report", pa.string())])

Report = Mapping[str, Any]  # small JSON
Work = Callable[[Iterator[pa.RecordBatch]], Iterable[Report]]


@dataclass(slots=True)
class Size:
    """Whether an epoch is small enough to be collected; learns how much comes out for what goes in.

    Input does not bound output: a watermark may close a million windows in an epoch without a single record. So what
    is expected to be small is collected within bounds (`collect`), and an epoch that breaks them goes over tasks.
    """

    small_epoch_bytes: int = SMALL_EPOCH_BYTES
    computing_s: float = 0.0  # how long it took to compute what was collected last; 0: it was not collected
    clock: Callable[[], float] = time.monotonic
    _bytes_per_input: float = float(ASSUMED_ROW_BYTES)
    _without_input: float = 0.0  # bytes written by epochs that had no input
    _row_bytes: float = float(ASSUMED_ROW_BYTES)  # of a row written
    _partitions: int = 0  # that Spark may compute them in, once it was asked
    _placed: Selection = field(default_factory=lambda: Selection(PLACED))
    _collector: Collector = field(default_factory=Collector)

    def is_small(self, context: EpochContext) -> bool:
        """Only where the sources tell how many records the epoch has."""
        if context.input_rows is None:
            return False
        expected = context.input_rows * self._bytes_per_input if context.input_rows else self._without_input
        return expected <= self.small_epoch_bytes

    def learn(self, context: EpochContext, output_bytes: int) -> None:
        """Up at once, down slowly."""
        if context.input_rows:
            self._bytes_per_input = max(0.9 * self._bytes_per_input, output_bytes / context.input_rows)
        elif context.input_rows == 0:
            self._without_input = max(0.9 * self._without_input, float(output_bytes))

    def learn_rows(self, context: EpochContext, rows: int) -> None:
        """The same, where only the number of rows is known, as after tasks."""
        self.learn(context, int(rows * self._row_bytes))

    def collect(self, rows: DataFrame, context: EpochContext) -> pa.Table | None:
        """The rows as Arrow, or None if they are not to be collected, or turn out to be too many.

        Each partition gives its first rows only, and all of them are read nevertheless: stateful operators keep their
        state when a partition ends, so none may be cut short. A second try goes over tasks: it may have been too much.
        """
        self.computing_s = 0.0
        if context.attempt > 1 or not self.is_small(context):
            return None
        began = self.clock()
        bound = self._rows_per_partition(rows)
        table = self._collector.table(self._placed.of(rows).where(f"{PLACE} <= {bound}"))
        places, found = table.column(PLACE), table.drop_columns([PLACE])
        if found.num_rows > bound and pc.max(places).as_py() >= bound:
            return None
        return self._learned(context, found, began)

    def collect_shaped(self, rows: DataFrame, schema: pa.Schema, context: EpochContext) -> pa.Table | None:
        """The same of a batch that has no more rows than the epoch has records, so that these bound it."""
        self.computing_s = 0.0
        if context.attempt > 1 or not self.is_small(context):
            return None
        began = self.clock()
        few = (context.input_rows or 0) <= FEW_ROWS
        return self._learned(context, collect_as_planned(rows, schema, few=few), began)

    def read_here(self, context: EpochContext, read: Callable[[], pa.Table | None]) -> pa.Table | None:
        """Rows that need not be computed, of an epoch that is expected to be small."""
        began = self.clock()
        found = read()
        return self._learned(context, found, began) if found is not None else None

    def _learned(self, context: EpochContext, found: pa.Table, began: float) -> pa.Table:
        if found.num_rows:
            self._row_bytes = max(0.9 * self._row_bytes, found.nbytes / found.num_rows)
        self.learn(context, found.nbytes)
        self.computing_s = self.clock() - began
        return found

    def _rows_per_partition(self, rows: DataFrame) -> int:
        """What a small epoch has, shared out evenly, and not too few for partitions of uneven size.

        A power of two, for it stands in the query: Spark writes and compiles its code anew for each number in it.
        """
        if not self._partitions:
            spark = rows.sparkSession
            shuffled = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
            self._partitions = max(shuffled, spark.sparkContext.defaultParallelism)
        rows_each = max(int(self.small_epoch_bytes / self._row_bytes / self._partitions), LEAST_ROWS)
        return 1 << (rows_each.bit_length() - 1)


def run(rows: DataFrame, context: EpochContext, size: Size, work: Work) -> list[Report]:
    """Give every row, with its hash in column `HASH`, to `work` once; what the successful calls report.

    `work` must be picklable and must not look at anything but its argument and what it carries.
    """
    prepared = with_hash(rows)
    table = size.collect(prepared, context)
    return run_here(table, work) if table is not None else run_in_tasks(prepared, context, size, work)


def run_here(table: pa.Table, work: Work) -> list[Report]:
    """In this process, over what was collected."""
    return list(work(iter(table.to_batches())))


def run_in_tasks(prepared: DataFrame, context: EpochContext, size: Size, work: Work) -> list[Report]:
    """In Spark's tasks, over rows that have their hashes."""
    with packed(prepared.sparkSession, work) as parcel:
        collected = prepared.mapInArrow(_in_task(parcel), "report string").collect()
    reports: list[Report] = [json.loads(row.report) for row in collected]
    for report in reports:
        if "error" in report:
            raise revive(report["error"], report["message"])
    size.learn_rows(context, sum(report.get("rows", 0) for report in reports))
    return reports


def with_hash(rows: DataFrame) -> DataFrame:
    """The rows and a 64-bit hash of each, computed by Spark."""
    if HASH in rows.columns:
        raise InvalidRows(f"the rows have a column {HASH!r}, which Onceward needs for itself: rename it")
    _require_distinct(rows)
    hashed = [_hashable(field.name, field.dataType) for field in rows.schema.fields]
    # Without the flags (null, "a") and ("a", null) would hash alike.
    flags = [f"isnull({_quoted(name)})" for name in rows.columns]
    columns = [_with_nulls(field.name, field.dataType) for field in rows.schema.fields]
    return rows.select(*columns, F.expr(f"xxhash64({', '.join([*flags, *hashed]) or '0'}) as {HASH}"))


def digest(rows: DataFrame) -> Outcome:
    """Run the rows and write nothing: their number, and the sum of their hashes."""
    # In two halves, so that no sum overflows.
    high, low = f"sum(shiftrightunsigned({HASH}, 32))", f"sum({HASH} & 4294967295L)"
    found = with_hash(rows).selectExpr("count(*) as rows", f"{high} as high", f"{low} as low").first()
    if found is None or found.rows == 0:
        return Outcome()
    return Outcome(rows=found.rows, digest=((found.high << 32) + found.low) % MODULUS)


def part_of(batch: pa.RecordBatch | pa.Table) -> PartitionOutcome:
    """Number and digest of rows that carry their hashes."""
    column = batch.column(HASH)
    hashes = column.to_numpy() if isinstance(column, pa.ChunkedArray) else column.to_numpy(zero_copy_only=False)
    return PartitionOutcome(batch.num_rows, int(hashes.view(np.uint64).sum(dtype=np.uint64)))


def _in_task(parcel: Parcel[Work]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            reports = list(parcel.open()(batches))
        except OncewardError as error:  # doing it again would give the same: no use in Spark's retries
            reports = [{"error": type(error).__name__, "message": str(error)}]
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(report) for report in reports]}, schema=_REPORT)

    return each


def _with_nulls(name: str, data_type: DataType) -> Column:
    """Arrow fills a struct that is null with null fields, and refuses them where Spark says that no field ever is."""
    column, nullable = F.col(_quoted(name)), _nullable(data_type)
    return column if nullable == data_type else column.cast(nullable).alias(name)


def _nullable(data_type: DataType) -> DataType:
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable(data_type.elementType))
    if isinstance(data_type, MapType):
        return MapType(_nullable(data_type.keyType), _nullable(data_type.valueType))
    if isinstance(data_type, StructType):
        return StructType([StructField(field.name, _nullable(field.dataType)) for field in data_type.fields])
    return data_type


def _hashable(name: str, data_type: DataType) -> str:
    """Nested values as JSON text: Spark's hash passes over nulls and lengths in them, and takes no maps at all."""
    if not isinstance(data_type, ArrayType | StructType | MapType | VariantType):
        return _quoted(name)
    if (key := _opaque_key(data_type)) is not None:
        raise InvalidRows(
            f"column {name!r} holds a map with keys of type {key.simpleString()}, which Spark writes differently each "
            "time, so that a replay could not be compared; make text of the keys: "
            f"transform_keys({name}, (k, v) -> base64(k)), or to_json(k)"
        )
    return f"to_json(struct({_quoted(name)}), {_AS_TEXT})"


def _opaque_key(data_type: DataType) -> DataType | None:
    """A map's keys that JSON has no words for: Spark's `to_json` then writes an object's address."""
    if isinstance(data_type, ArrayType):
        return _opaque_key(data_type.elementType)
    if isinstance(data_type, StructType):
        return next((key for field in data_type.fields if (key := _opaque_key(field.dataType))), None)
    if not isinstance(data_type, MapType):
        return None
    if isinstance(data_type.keyType, BinaryType | ArrayType | StructType):
        return data_type.keyType
    return _opaque_key(data_type.valueType)


def _require_distinct(rows: DataFrame) -> None:
    names = rows.columns
    if len({name.lower() for name in names}) == len(names):
        return
    if rows.sparkSession.conf.get("spark.sql.caseSensitive") != "true":
        names = [name.lower() for name in names]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidRows(f"the rows have several columns of one name: {', '.join(twice)}; rename them")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
