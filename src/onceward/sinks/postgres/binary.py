"""Arrow columns to PostgreSQL's binary COPY format, without looking at rows one by one.

A row is a count of fields, then for each field its length and its bytes; a null has length -1 and no bytes. Each column
becomes *pieces*, either fixed (an array of rows by bytes) or varying (Arrow binary). Neighbouring fixed pieces are put
side by side, Arrow joins the rest row by row, and the data buffer of the result is what COPY takes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from onceward.errors import InvalidRows
from onceward.sinks.postgres.numeric import numerics

SIGNATURE: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"
CHUNK_BYTES: Final = 32 << 20  # of Arrow data turned into COPY data at once: bounds memory, far below Arrow's 2 GB

_EPOCH_DAYS: Final = 10_957  # PostgreSQL counts from 2000-01-01
_EPOCH_US: Final = _EPOCH_DAYS * 86_400_000_000

Bytes = NDArray[np.uint8]  # rows by bytes
Piece: TypeAlias = Bytes | pa.Array


class Form(Enum):
    """How a PostgreSQL type travels."""

    BOOL = auto()
    INT2 = auto()
    INT4 = auto()
    INT8 = auto()
    FLOAT4 = auto()
    FLOAT8 = auto()
    NUMERIC = auto()
    TEXT = auto()
    BYTES = auto()
    JSON = auto()
    JSONB = auto()
    UUID = auto()
    DATE = auto()
    TIME = auto()
    TIMESTAMP = auto()
    TIMESTAMPTZ = auto()
    UNKNOWN = auto()  # takes nothing


@dataclass(frozen=True, slots=True)
class Coding:
    """How a column travels; `element` is the object id of its elements' type, where it is an array."""

    name: str
    form: Form
    element: int | None = None


class _Unfit(Exception):
    """A value that the column's type cannot hold."""


def encode(batch: pa.RecordBatch, codings: Sequence[Coding], tail: bytes = b"") -> Iterator[memoryview]:
    """The first columns as COPY data, in parts of bounded size; `tail` is one more field, the same in every row."""
    if batch.nbytes > CHUNK_BYTES and batch.num_rows > 1:
        middle = batch.num_rows // 2
        yield from encode(batch.slice(0, middle), codings, tail)
        yield from encode(batch.slice(middle), codings, tail)
    elif batch.num_rows:
        fields = len(codings) + bool(tail)
        pieces: list[Piece] = [_constant(batch.num_rows, fields.to_bytes(2, "big"))]
        for place, coding in enumerate(codings):
            pieces += _field(batch.column(place), coding)
        if tail:
            pieces.append(_constant(batch.num_rows, len(tail).to_bytes(4, "big") + tail))
        joined = _join(pieces)
        edges = _offsets(joined)
        yield memoryview(joined.buffers()[2])[edges[0] : edges[-1]]


def _field(column: pa.Array, coding: Coding) -> list[Piece]:
    try:
        return _scalars(column, coding.form) if coding.element is None else _arrays(column, coding.form, coding.element)
    except _Unfit as unfit:
        raise InvalidRows(f"column {coding.name!r}: {unfit}") from None


def _scalars(column: pa.Array, form: Form) -> list[Piece]:
    if isinstance(column, pa.NullArray):
        return [_constant(len(column), b"\xff" * 4)]
    if form in _FIXED:
        return [_fixed(_FIXED[form](column), column)]
    values = column.cast(pa.binary())
    if form is Form.JSONB:  # the version of its format goes first
        values = pc.binary_join_element_wise(pa.scalar(b"\x01"), values, pa.scalar(b""))
    lengths = pc.binary_length(values).fill_null(-1).to_numpy()
    return [_big_endian(lengths, ">i4"), values.fill_null(b"") if values.null_count else values]


def _fixed(values: Bytes, column: pa.Array) -> Piece:
    """Fields of one width, of which some may be null and so are only a length."""
    rows, width = values.shape
    fields = np.empty((rows, 4 + width), np.uint8)
    fields[:, :4] = np.frombuffer(width.to_bytes(4, "big"), np.uint8)
    fields[:, 4:] = values
    if not column.null_count:
        return fields
    nulls = _nulls(column)
    fields[nulls, :4] = 0xFF
    return _ragged(fields, np.where(nulls, 4, 4 + width))


def _arrays(column: pa.Array, form: Form, element: int) -> list[Piece]:
    """One dimension each: a header, then every element like a field. An empty array has no dimension."""
    elements = _join(_scalars(column.flatten(), form))
    counts = pc.list_value_length(column).fill_null(0).to_numpy().astype(np.int64)
    edges = _offsets(elements)[np.concatenate(([0], np.cumsum(counts)))]
    bodies = _binary(elements.buffers()[2] or pa.py_buffer(b""), edges)
    header = np.empty((len(column), 5), ">i4")
    header[:] = (1, 1, element, 0, 1)  # dimensions, may hold nulls, type, length, first index
    header[:, 3] = counts
    header[counts == 0, :2] = 0
    nulls = _nulls(column)
    widths = np.where(nulls, 0, np.where(counts == 0, 12, 20))
    lengths = np.where(nulls, -1, widths + np.diff(edges))
    return [_big_endian(lengths, ">i4"), _ragged(header.view(np.uint8), widths), bodies]


def _booleans(column: pa.Array) -> Bytes:
    values: NDArray[np.bool_] = column.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003
    return values.astype(np.uint8)[:, None]


def _integers(kind: str) -> Callable[[pa.Array], Bytes]:
    limits = np.iinfo(kind)

    def encoded(column: pa.Array) -> Bytes:
        values = column.fill_null(0).to_numpy()
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if low < limits.min or high > limits.max:
            worst = low if low < limits.min else high
            raise _Unfit(f"{worst} is outside its type's range, {limits.min} to {limits.max}; widen the column")
        return _big_endian(values, kind)

    return encoded


def _floats(kind: str) -> Callable[[pa.Array], Bytes]:
    return lambda column: _big_endian(column.fill_null(0).to_numpy(), kind)


def _dates(column: pa.Array) -> Bytes:
    return _since_2000(column.cast(pa.date32()).cast(pa.int32()), _EPOCH_DAYS, ">i4")


def _timestamps(column: pa.Array) -> Bytes:
    return _since_2000(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()), _EPOCH_US, ">i8")


def _times(column: pa.Array) -> Bytes:
    return _big_endian(column.cast(pa.time64("us")).cast(pa.int64()).fill_null(0).to_numpy(), ">i8")


def _since_2000(column: pa.Array, start: int, kind: str) -> Bytes:
    """PostgreSQL checks its own range; here only that the shift stays clear of the ends, which mean infinity there."""
    values = column.fill_null(start).to_numpy()
    if len(values) and int(values.min()) <= np.iinfo(kind).min + start:
        raise _Unfit("a date or timestamp is before what PostgreSQL can hold, 4713 BC")
    return _big_endian(values - values.dtype.type(start), kind)


def _uuids(column: pa.Array) -> Bytes:
    plain = pc.replace_substring(column.cast(pa.string()).fill_null("0" * 32), "-", "")
    wrong = pc.invert(pc.match_substring_regex(plain, "^[0-9a-fA-F]{32}$"))
    if pc.any(wrong).as_py():
        raise _Unfit(f"{pc.filter(column, wrong)[0].as_py()!r} is no UUID")
    digits = b"".join(plain.cast(pa.binary()).to_pylist())
    return np.frombuffer(bytes.fromhex(digits.decode("ascii")), np.uint8).reshape(len(column), 16)


_FIXED: Final[Mapping[Form, Callable[[pa.Array], Bytes]]] = {
    Form.BOOL: _booleans,
    Form.INT2: _integers(">i2"),
    Form.INT4: _integers(">i4"),
    Form.INT8: _integers(">i8"),
    Form.FLOAT4: _floats(">f4"),
    Form.FLOAT8: _floats(">f8"),
    Form.NUMERIC: numerics,
    Form.UUID: _uuids,
    Form.DATE: _dates,
    Form.TIME: _times,
    Form.TIMESTAMP: _timestamps,
    Form.TIMESTAMPTZ: _timestamps,
}


def _join(pieces: Sequence[Piece]) -> pa.Array:
    """All pieces of each row, one after the other, as Arrow binary."""
    arrays: list[pa.Array] = []
    block: list[Bytes] = []
    for piece in pieces:
        if isinstance(piece, np.ndarray):
            block.append(piece)
            continue
        arrays += _blocks(block)
        arrays.append(piece)
        block = []
    arrays += _blocks(block)
    return arrays[0] if len(arrays) == 1 else pc.binary_join_element_wise(*arrays, pa.scalar(b""))


def _blocks(block: Sequence[Bytes]) -> list[pa.Array]:
    if not block:
        return []
    together = np.ascontiguousarray(np.concatenate(block, axis=1))
    rows, width = together.shape
    return [_binary(together, np.arange(rows + 1) * width)]


def _ragged(fields: Bytes, widths: NDArray[np.int64]) -> pa.Array:
    """The first `widths[i]` bytes of each row i."""
    keep = np.arange(fields.shape[1]) < widths[:, None]
    return _binary(fields[keep], np.concatenate(([0], np.cumsum(widths))))


def _binary(data: Bytes | pa.Buffer, edges: NDArray[np.integer[Any]]) -> pa.Array:
    offsets = pa.py_buffer(np.ascontiguousarray(edges, np.int32))
    buffer = data if isinstance(data, pa.Buffer) else pa.py_buffer(data)
    return pa.Array.from_buffers(pa.binary(), len(edges) - 1, [None, offsets, buffer])


def _offsets(array: pa.Array) -> NDArray[np.int32]:
    if not len(array):
        return np.zeros(1, np.int32)  # Arrow may leave the buffer of an empty array out
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def _constant(rows: int, data: bytes) -> Bytes:
    return np.broadcast_to(np.frombuffer(data, np.uint8), (rows, len(data)))


def _big_endian(values: NDArray[np.generic], kind: str) -> Bytes:
    return np.ascontiguousarray(values, dtype=kind).view(np.uint8).reshape(len(values), np.dtype(kind).itemsize)


def _nulls(column: pa.Array) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found
