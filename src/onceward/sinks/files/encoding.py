"""One open file of the sink: Parquet in row groups, or lines of text. Finished means closed and synced."""

import contextlib
import gzip
import os
from dataclasses import dataclass
from typing import IO, Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from onceward.errors import ConfigurationError
from onceward.sinks.files.columns import LINE

# zstd: for a million ad events 43 % smaller than snappy, for half as much again of the time to write; Spark, Arrow
# and DuckDB read it.
DEFAULTS: Final = {"parquet": "zstd", "json": "none", "csv": "none"}
COMPRESSIONS: Final = {
    "parquet": ("zstd", "snappy", "gzip", "lz4", "none"),
    "json": ("none", "gzip"),
    "csv": ("none", "gzip"),
}


GZIP_LEVEL: Final = 6  # gzip's own default; Arrow's is 9, which took sixty times as long as snappy


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How files are written, and how their names end. Small: it is shipped with each task."""

    format: str
    compression: str
    header: str | None = None

    @property
    def suffix(self) -> str:
        """Readers tell a compressed text by its name."""
        return f".{self.format}.gz" if self.format != "parquet" and self.compression == "gzip" else f".{self.format}"

    def open(self, path: str) -> "OpenFile":
        return ParquetFile(path, self.compression) if self.format == "parquet" else LinesFile(path, self)


def checked(file_format: str, compression: str | None) -> str:
    """The compression to use; a choice that is not known is refused."""
    if file_format not in COMPRESSIONS:
        raise ConfigurationError(f"format {file_format!r} is not known; choose one of {', '.join(COMPRESSIONS)}")
    chosen = DEFAULTS[file_format] if compression is None else compression
    if chosen not in COMPRESSIONS[file_format]:
        known = ", ".join(COMPRESSIONS[file_format])
        raise ConfigurationError(f"compression {chosen!r} is not known for {file_format}; choose one of {known}")
    return chosen


class OpenFile(Protocol):
    """A file that rows are added to."""

    path: str
    held_bytes: int  # of rows that are not in the file yet

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; write them now or later."""

    def flush(self) -> None:
        """Write what is held."""

    def finish(self) -> int:
        """Write, close and sync; its size."""

    def abandon(self) -> None:
        """Close it as it is; nobody will read it."""


class ParquetFile:
    """Rows are held until they make a row group."""

    def __init__(self, path: str, compression: str) -> None:
        self.path = path
        self.held_bytes = 0
        self._held: list[pa.RecordBatch] = []
        self._compression = compression
        self._file = open(path, "xb")  # noqa: PTH123, SIM115 - open as long as the rows come
        self._writer: pq.ParquetWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take rows; write them with the next row group."""
        self._held.append(batch)
        self.held_bytes += batch.nbytes

    def flush(self) -> None:
        """Write a row group."""
        if self._held:
            table = pa.Table.from_batches(self._held)
            table = table.cast(_with_nulls(table.schema))
            if self._writer is None:
                level = GZIP_LEVEL if self._compression == "gzip" else None
                self._writer = pq.ParquetWriter(
                    self._file, table.schema, compression=self._compression, compression_level=level
                )
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._held, self.held_bytes = [], 0

    def finish(self) -> int:
        """Write, close and sync; its size."""
        self.flush()
        if self._writer is not None:
            self._writer.close()
        return _finish(self._file)

    def abandon(self) -> None:
        """Close it as it is. The writer wants to add its footer, which may fail once more."""
        if self._writer is not None:
            with contextlib.suppress(OSError, pa.ArrowException):
                self._writer.close()
        with contextlib.suppress(OSError):
            self._file.close()


class LinesFile:
    """Lines go out as they come."""

    held_bytes = 0

    def __init__(self, path: str, encoding: Encoding) -> None:
        self.path = path
        self._file = open(path, "xb")  # noqa: PTH123, SIM115 - open as long as the rows come
        self._out: IO[bytes] | gzip.GzipFile = self._file
        if encoding.compression == "gzip":
            self._out = gzip.GzipFile(fileobj=self._file, mode="wb", compresslevel=GZIP_LEVEL, filename="", mtime=0)
        if encoding.header is not None:
            self._out.write(encoding.header.encode() + b"\n")

    def add(self, batch: pa.RecordBatch) -> None:
        """Write all lines in one piece."""
        if batch.num_rows:
            lines = batch.column(LINE).cast(pa.large_string())
            listed = pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines)
            joined = pc.binary_join(listed, pa.scalar("\n", pa.large_string()))
            self._out.write(joined[0].as_buffer())
            self._out.write(b"\n")

    def flush(self) -> None:
        """Hand over what the file object holds."""
        self._out.flush()

    def finish(self) -> int:
        """Write, close and sync; its size."""
        if self._out is not self._file:
            self._out.close()
        return _finish(self._file)

    def abandon(self) -> None:
        """Close it as it is."""
        for each in (self._out, self._file):
            with contextlib.suppress(OSError, ValueError):
                each.close()


def _with_nulls(schema: pa.Schema) -> pa.Schema:
    """Every file has the same types, whatever Spark could prove about nulls in one epoch or on one way."""
    return pa.schema([_nullable(field) for field in schema])


def _nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable(inner) for inner in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_field, _nullable(kind.item_field))
    return pa.field(field.name, kind)


def _finish(file: IO[Any]) -> int:
    file.flush()
    os.fsync(file.fileno())
    size = os.fstat(file.fileno()).st_size
    file.close()
    return size
