"""The rows of a Kafka topic as Arrow columns: what is accepted, and how it is put into one shape.

A `Run` is a stretch of rows in that shape, small enough that no 32-bit Arrow offset can overflow.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from onceward.errors import InvalidRows
from onceward.kafka.varints import Integers, varints, widths

RUN_BYTES: Final = 256 << 20  # far below the 2 GiB of a 32-bit offset, far above a record batch
NULL_LENGTH: Final = -1
NOTHING: Final = pa.scalar(b"", pa.binary())

Rows: TypeAlias = slice | NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.int64] | NDArray[np.uint64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Each column is an Arrow array, chunked or not. None stands for a column of nulls."""

    key: pa.Array | pa.ChunkedArray | None = None  # binary or string
    value: pa.Array | pa.ChunkedArray | None = None  # binary or string; null is a tombstone
    headers: pa.Array | pa.ChunkedArray | None = None  # list<struct<key: string, value: binary>>
    timestamp: pa.Array | pa.ChunkedArray | None = None  # int64 of milliseconds, or an Arrow timestamp
    body: pa.Array | pa.ChunkedArray | None = None  # binary; in place of all others: key and value as a record has them

    def runs(self, routes: NDArray[np.int32], hashes: Hashes, timestamp_ms: int) -> Iterator["Run"]:
        """The rows in order; `timestamp_ms` stands where the column has a null."""
        columns = {
            "route": pa.array(routes, pa.int32()),
            "hash": pa.array(hashes.view(np.uint64)),
            "key": None if self.key is None else _as_bytes(self.key, "key"),
            "value": None if self.value is None else _as_bytes(self.value, "value"),
            "headers": None if self.headers is None else _as_headers(self.headers),
            "timestamp": None if self.timestamp is None else _as_milliseconds(self.timestamp, timestamp_ms),
            "body": self.body,
        }
        table = pa.table({name: column for name, column in columns.items() if column is not None})
        return map(Run.of, _stretches(table))


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A key or a value: the bytes, and each row's length (-1 for null)."""

    data: pa.Array
    lengths: Integers

    @classmethod
    def of(cls, data: pa.Array) -> Self:
        return cls(data=data, lengths=_lengths(data))

    def parts(self, rows: Rows) -> tuple[pa.Array, pa.Array]:
        """Length and bytes, ready to be joined."""
        return varints(self.lengths[rows]), pick(self.data, rows)

    def sizes(self) -> NDArray[np.int64]:
        sizes: NDArray[np.int64] = self.lengths.astype(np.int64)
        sizes += widths(self.lengths)
        if self.data.null_count:
            sizes += self.lengths == NULL_LENGTH
        return sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    routes: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    key: Field | None
    value: Field | None
    headers: pa.BinaryArray | None  # each row's section as it stands in a record; None: no row has any
    timestamps: NDArray[np.int64] | None
    body: pa.BinaryArray | None  # in place of key and value

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Self:
        column = dict(zip(rows.schema.names, rows.columns, strict=True))
        return cls(
            routes=column["route"].to_numpy(),
            hashes=column["hash"].to_numpy(),
            key=Field.of(column["key"]) if "key" in column else None,
            value=Field.of(column["value"]) if "value" in column else None,
            headers=_header_sections(column["headers"]) if "headers" in column else None,
            timestamps=column["timestamp"].to_numpy() if "timestamp" in column else None,
            body=column.get("body"),
        )

    def sizes(self) -> NDArray[np.int64]:
        """Each record's bytes apart from its own length and its two deltas, which depend on its batch."""
        attributes = 1
        if self.body is not None:
            return _lengths(self.body).astype(np.int64) + (attributes + 1)
        key = 1 if self.key is None else self.key.sizes()
        value = 1 if self.value is None else self.value.sizes()
        headers = 1 if self.headers is None else _lengths(self.headers)
        return np.zeros(len(self.routes), np.int64) + attributes + key + value + headers


def pick(array: pa.Array, rows: Rows) -> pa.BinaryArray:
    """Some rows, with 32-bit offsets: a batch is always small enough for them."""
    picked = array[rows] if isinstance(rows, slice) else array.take(pa.array(rows))
    return picked if picked.type == pa.binary() else picked.cast(pa.binary())


def join(*parts: pa.Array | pa.Scalar) -> pa.BinaryArray:
    """Row by row, one part after the other; a null adds nothing."""
    return pc.binary_join_element_wise(*parts, NOTHING, null_handling="replace", null_replacement="")


def _lengths(array: pa.Array) -> Integers:
    lengths: Integers = pc.binary_length(array).fill_null(NULL_LENGTH).to_numpy()
    return lengths


def _as_bytes(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array | pa.ChunkedArray | None:
    """Binary or large binary; None for a column without a type, which holds only nulls."""
    kind = column.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return column
    if pa.types.is_large_string(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_string(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.binary())
    raise InvalidRows(f"column {name!r} has type {kind}; Kafka takes binary or string: cast it in the query")


def _as_headers(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray | None:
    kind = column.type
    if pa.types.is_null(kind):
        return None
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    entry = kind.value_type if is_list else None
    if entry is None or not pa.types.is_struct(entry) or {field.name for field in entry} != {"key", "value"}:
        raise InvalidRows(f"column 'headers' has type {kind}; it must be an array of struct<key string, value binary>")
    return column


def _as_milliseconds(column: pa.Array | pa.ChunkedArray, missing: int) -> pa.Array | pa.ChunkedArray | None:
    kind = column.type
    if pa.types.is_null(kind):
        return None
    if pa.types.is_timestamp(kind):
        cut = pc.CastOptions(pa.timestamp("ms", kind.tz), allow_time_truncate=True)
        column = pc.cast(column, options=cut).cast(pa.int64())
    elif not pa.types.is_int64(kind):
        raise InvalidRows(f"column 'timestamp' has type {kind}; it must be a timestamp or a bigint of milliseconds")
    column = column.fill_null(missing)
    earliest = pc.min(column).as_py()
    if earliest is not None and earliest < 0:
        raise InvalidRows(f"column 'timestamp' holds {earliest} ms: Kafka has no timestamps before 1970")
    return column


def _stretches(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The table's rows in order, small chunks put together, large ones cut."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for piece in (piece for chunk in table.to_batches() for piece in _cut(chunk)):
        if waiting and size + piece.nbytes > RUN_BYTES:
            yield _together(waiting)
            waiting, size = [], 0
        waiting.append(piece)
        size += piece.nbytes
    if waiting:
        yield _together(waiting)


def _together(pieces: list[pa.RecordBatch]) -> pa.RecordBatch:
    return pieces[0] if len(pieces) == 1 else pa.concat_batches(pieces)


def _cut(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if rows.num_rows <= 1 or rows.nbytes <= RUN_BYTES:
        yield rows
        return
    middle = rows.num_rows // 2
    yield from _cut(rows.slice(0, middle))
    yield from _cut(rows.slice(middle))


def _header_sections(headers: pa.Array) -> pa.BinaryArray | None:
    """Each row's number of headers and the headers themselves, as they stand in a record."""
    entries = headers.flatten()
    if not len(entries):
        return None
    fields = dict(zip((field.name for field in entries.type), entries.flatten(), strict=True))
    key, value = _as_bytes(fields["key"], "headers.key"), _as_bytes(fields["value"], "headers.value")
    if key is None or key.null_count:
        raise InvalidRows("a header has a null key; Kafka allows a null value, never a null key")
    value = pa.nulls(len(entries), pa.binary()) if value is None else value
    every = slice(None)
    encoded = join(*Field.of(key).parts(every), *Field.of(value).parts(every))
    counts = pc.list_value_length(headers).fill_null(0).to_numpy()
    # The entries of a row are neighbours: joining them means leaving out the offsets in between.
    ends = np.frombuffer(encoded.buffers()[1], np.int32)[np.concatenate(([0], np.cumsum(counts)))]
    rows = pa.Array.from_buffers(pa.binary(), len(headers), [None, pa.py_buffer(ends), encoded.buffers()[2]])
    return join(varints(counts), rows)
