"""How rows become an Iceberg table's files: columns with their field ids, rows apart by the partition spec.

Partition values travel in Iceberg's own binary form of a single value, as base64, so that any type comes back exact.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionField, PartitionSpec, partition_record_value
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from onceward.sinks.parquet import columns
from onceward.sinks.parquet.writer import Key


@dataclass(frozen=True)
class IcebergLayout:
    """Picklable: it goes to the tasks."""

    table: Schema
    spec: PartitionSpec
    compression: str

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the files. Readers find columns by field id, so names stay as they are, whatever is in them."""
        return schema_to_pyarrow(self.table)

    def split(self, batch: pa.RecordBatch) -> Iterable[tuple[Key, pa.Table]]:
        rows = columns.conform(batch, self.schema)
        for values, part in columns.grouped(rows, [self._transformed(field, rows) for field in self.spec.fields]):
            yield tuple(map(self._encoded, self.spec.fields, values)), part

    def statistics(self, metadata: pq.FileMetaData) -> None:
        """Taken from the file's footer when the table names it."""

    def record(self, key: Iterable[str | None]) -> Record:
        """A partition as manifests have it."""
        values = [
            None if text is None else from_bytes(self._result_type(field), base64.b64decode(text))
            for field, text in zip(self.spec.fields, key, strict=True)
        ]
        return Record(*values)

    def _transformed(self, field: PartitionField, rows: pa.Table) -> pa.Array:
        source = self.table.find_field(field.source_id)
        name = self.table.find_column_name(field.source_id) or ""
        if name in rows.column_names:
            column = rows.column(name)
        else:
            outer, *inner = name.split(".")
            column = pc.struct_field(rows.column(outer), inner)
        return field.transform.pyarrow_transform(source.field_type)(column)

    def _encoded(self, field: PartitionField, value: Any) -> str | None:
        internal = partition_record_value(field, value, self.table)
        return None if internal is None else base64.b64encode(to_bytes(self._result_type(field), internal)).decode()

    def _result_type(self, field: PartitionField) -> PrimitiveType:
        found = field.transform.result_type(self.table.find_field(field.source_id).field_type)
        assert isinstance(found, PrimitiveType)
        return found
