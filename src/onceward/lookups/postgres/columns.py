"""PostgreSQL's columns as Arrow's: the types come from the server's description, so no rows have them too."""

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import psycopg
import pyarrow as pa
from psycopg import Cursor
from psycopg.adapt import AdaptersMap, Loader
from psycopg.pq import Format
from psycopg.types.string import TextBinaryLoader

from onceward.errors import LookupUnusable
from onceward.postgres.options import Row

CHUNK_ROWS: Final = 50_000  # as Python objects at once
MAX_PRECISION: Final = 38  # of Spark's decimals
NUMERIC: Final = 1700
TIMES: Final = {  # by object id
    1082: pa.date32(),
    1114: pa.timestamp("us"),
    1184: pa.timestamp("us", tz="UTC"),
}
TYPES: Final = {
    16: pa.bool_(),
    17: pa.binary(),
    19: pa.string(),  # name
    20: pa.int64(),
    21: pa.int16(),
    23: pa.int32(),
    25: pa.string(),
    114: pa.string(),  # json
    700: pa.float32(),
    701: pa.float64(),
    1042: pa.string(),  # char(n), with its spaces
    1043: pa.string(),
    2950: pa.string(),  # uuid
    3802: pa.string(),  # jsonb
    **TIMES,
}


class _JsonbText(Loader):
    """Behind the number of its format."""

    format = Format.BINARY

    def load(self, data: Any) -> str:
        return bytes(data)[1:].decode()


class _UuidText(Loader):
    format = Format.BINARY

    def load(self, data: Any) -> str:
        return str(UUID(bytes=bytes(data)))


def as_text(adapters: AdaptersMap) -> None:
    """Have JSON and UUIDs as text, not as Python's objects."""
    for kind, loader in (("json", TextBinaryLoader), ("jsonb", _JsonbText), ("uuid", _UuidText)):
        adapters.register_loader(kind, loader)


def table_of(name: str, cursor: Cursor[Row]) -> pa.Table:
    """The whole result of a query."""
    if cursor.description is None:
        raise LookupUnusable(f"the query of the lookup's table {name!r} gives no rows; it has to be one SELECT")
    schema = _schema(name, cursor)
    batches = []
    try:
        while rows := cursor.fetchmany(CHUNK_ROWS):
            columns = zip(schema, zip(*rows, strict=True), strict=True)
            batches.append(pa.record_batch([_column(name, field, values) for field, values in columns], schema))
    except (psycopg.DataError, UnicodeDecodeError) as error:  # a value that Python cannot hold
        times = ", ".join(field.name for field in schema if field.type in TIMES.values())
        raise LookupUnusable(
            f"the lookup's table {name!r} has a value that cannot be kept: {error}. Dates and times are kept from year "
            "1 to 9999, without infinity; say in the query what you want instead, as in nullif(until, 'infinity'). "
            f"Columns with dates and times: {times or 'none'}."
        ) from error
    return pa.Table.from_batches(batches, schema)


def _schema(name: str, cursor: Cursor[Row]) -> pa.Schema:
    assert cursor.description is not None
    assert cursor.pgresult is not None
    fields = []
    for place, column in enumerate(cursor.description):
        kind = column.type_code
        if kind == NUMERIC:
            fields.append(pa.field(column.name, _decimal(name, column.name, cursor.pgresult.fmod(place))))
        elif kind in TYPES:
            fields.append(pa.field(column.name, TYPES[kind]))
        else:
            raise LookupUnusable(
                f"the lookup's table {name!r}: column {column.name!r} has type {column.type_display}, which cannot be "
                f"kept; cast it in the query, as in {column.name}::text"
            )
    return pa.schema(fields)


def _decimal(name: str, column: str, modifier: int) -> pa.DataType:
    """From the type's modifier: precision above, scale below as eleven bits with a sign."""
    precision, scale = (modifier - 4) >> 16, (((modifier - 4) & 0x7FF) ^ 1024) - 1024
    if modifier < 0 or precision > MAX_PRECISION or not 0 <= scale <= precision:
        found = "numeric without precision" if modifier < 0 else f"numeric({precision},{scale})"
        raise LookupUnusable(
            f"the lookup's table {name!r}: column {column!r} is {found}, which Spark has no decimal for; cast it in "
            f"the query, as in {column}::numeric(12,2)"
        )
    return pa.decimal128(precision, scale)


def _column(name: str, field: pa.Field, values: Sequence[Any]) -> pa.Array:
    if pa.types.is_decimal(field.type) and any(value is not None and not value.is_finite() for value in values):
        raise LookupUnusable(
            f"the lookup's table {name!r}: column {field.name!r} has a NaN or an infinity, which decimals cannot hold; "
            f"say in the query what you want instead, as in nullif({field.name}, 'NaN')"
        )
    return pa.array(values, field.type)
