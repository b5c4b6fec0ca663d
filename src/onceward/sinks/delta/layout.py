"""How rows become a Delta table's files: no partition columns inside, the number of rows beside.

No bounds of columns, which would let readers pass over files: a file with bounds for some of its columns loses rows in
deltalake's Arrow reader, which takes a bound that is not there for null and compares with it. Bounds for all columns
are not to be had (lists, floats, columns of nothing but nulls). A compaction writes them.

Partition values are texts in the log, in the forms that Delta's protocol names. The empty text means null there, for
every writer: an empty partition value is read as null.
"""

import datetime as dt
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onceward.sinks.parquet import columns
from onceward.sinks.parquet.writer import Key


@dataclass(frozen=True, slots=True)
class DeltaLayout:
    """Picklable: it goes to the tasks."""

    table: pa.Schema
    partition_by: tuple[str, ...]
    compression: str = "zstd"

    @property
    def schema(self) -> pa.Schema:
        """Of the files: the table's columns without those that partition it."""
        return pa.schema([field for field in self.table if field.name not in self.partition_by])

    def split(self, batch: pa.RecordBatch) -> Iterable[tuple[Key, pa.Table]]:
        rows = columns.conform(batch, self.table)
        keys = [rows.column(name) for name in self.partition_by]
        for values, part in columns.grouped(rows, keys):
            yield tuple(partition_text(value) for value in values), part.drop_columns(list(self.partition_by))

    def statistics(self, metadata: pq.FileMetaData) -> str:
        return json.dumps({"numRecords": metadata.num_rows})


def partition_text(value: Any) -> str | None:
    """A partition value as the log has it."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dt.datetime):
        zone = "Z" if value.tzinfo is not None else ""
        separator = "T" if zone else " "
        return value.replace(tzinfo=None).isoformat(separator, "microseconds") + zone
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"
    return format(value, "f") if isinstance(value, Decimal) else str(value)
