"""Columns on their way from Spark into a table's files: Spark's types as Arrow, and what fits into what.

Spark hands timestamps over in the session's time zone and may hand texts over as large ones; a file has the table's
own types. So a batch is cast, column by column, after the schemas were found to fit: a value never changes.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from onceward.errors import InvalidRows

_SIMPLE: Final[dict[type[spark.DataType], pa.DataType]] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.CharType: pa.string(),
    spark.VarcharType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", tz="UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
}
_INTEGERS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS: Final = (pa.float32(), pa.float64())


def arrow_schema(columns: spark.StructType, *, nullable: bool = False) -> pa.Schema:
    """The rows' columns as Arrow's; `nullable`: with nulls allowed everywhere, as in a table that Spark makes."""
    seen: set[str] = set()
    for field in columns.fields:
        if field.name.lower() in seen:
            raise InvalidRows(
                f"the rows have two columns {field.name!r} (upper and lower case count as the same): rename one"
            )
        seen.add(field.name.lower())
    return pa.schema([_field(field.name, field.dataType, nullable or field.nullable, nullable) for field in columns])


def check_fit(rows: pa.Schema, table: pa.Schema, name: str) -> None:
    """Every column of the rows must be one of the table's, with a type that holds it; the table may have more."""
    for field in rows:
        if field.name not in table.names:
            raise InvalidRows(
                f"the rows have a column {field.name!r} which {name} has not (it has {', '.join(table.names)}): add it "
                "to the table, or drop it from the rows"
            )
        wanted = table.field(field.name)
        if not _fits(field.type, wanted.type):
            raise InvalidRows(
                f"column {field.name!r} is {_text(field.type)} in the rows and {_text(wanted.type)} in {name}: cast it "
                "before the sink, or change the table"
            )
    for wanted in table:
        if not wanted.nullable and wanted.name not in rows.names:
            raise InvalidRows(f"{name} needs a value in column {wanted.name!r}, which the rows have not: add it")


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """The batch with the schema's columns, types and order; columns that it lacks are null."""
    arrays = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        column = batch.column(index).cast(field.type) if index >= 0 else pa.nulls(batch.num_rows, field.type)
        if not field.nullable and column.null_count:
            raise InvalidRows(f"column {field.name!r} takes no nulls in the table, and the rows have some")
        arrays.append(column)
    return pa.Table.from_arrays(arrays, schema=schema)


def grouped(rows: pa.Table, keys: list[pa.Array | pa.ChunkedArray]) -> Iterator[tuple[list[Any], pa.Table]]:
    """The rows apart by equal keys, each with its keys' values; null is a value like any other."""
    if rows.num_rows == 0:
        return
    if not keys:
        yield [], rows
        return
    combined = np.zeros(rows.num_rows, dtype=np.int64)
    for key in keys:
        flat = key.combine_chunks() if isinstance(key, pa.ChunkedArray) else key
        encoded = pc.dictionary_encode(flat, null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        # Numbered anew after each key, so that the product of many keys does not overflow.
        combined = np.unique(combined * len(encoded.dictionary) + codes, return_inverse=True)[1]
    order = np.argsort(combined, kind="stable")
    starts = np.flatnonzero(np.diff(combined[order], prepend=-1))
    ends = [*starts[1:], rows.num_rows]
    sorted_rows = rows if len(starts) == 1 else rows.take(pa.array(order))
    for start, end in zip(starts, ends, strict=True):
        yield [key[int(order[start])].as_py() for key in keys], sorted_rows.slice(start, end - start)


def _field(name: str, data_type: spark.DataType, nullable: bool, relaxed: bool) -> pa.Field:  # noqa: FBT001 - inner
    return pa.field(name, _type(name, data_type, relaxed), nullable=nullable)


def _type(name: str, data_type: spark.DataType, relaxed: bool) -> pa.DataType:  # noqa: FBT001 - inner
    if isinstance(data_type, spark.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, spark.ArrayType):
        return pa.list_(_field("element", data_type.elementType, relaxed or data_type.containsNull, relaxed))
    if isinstance(data_type, spark.MapType):
        value = _field("value", data_type.valueType, relaxed or data_type.valueContainsNull, relaxed)
        return pa.map_(_type(name, data_type.keyType, relaxed), value)
    if isinstance(data_type, spark.StructType):
        return pa.struct([_field(part.name, part.dataType, relaxed or part.nullable, relaxed) for part in data_type])
    try:
        return _SIMPLE[type(data_type)]
    except KeyError:
        raise InvalidRows(
            f"column {name!r} has Spark's type {data_type.simpleString()}, which lake tables do not hold: cast it, for "
            "example to a string"
        ) from None


def _fits(have: pa.DataType, want: pa.DataType) -> bool:
    """Equal, or wider; inside lists, maps and structs too. Struct fields are matched by place, so names must agree."""
    if pa.types.is_struct(have) and pa.types.is_struct(want):
        return have.num_fields == want.num_fields and all(
            one.name == other.name and _field_fits(one, other) for one, other in zip(have, want, strict=True)
        )
    if pa.types.is_map(have) and pa.types.is_map(want):
        return _fits(have.key_type, want.key_type) and _field_fits(have.item_field, want.item_field)
    if _is_list(have) and _is_list(want):
        return _field_fits(have.value_field, want.value_field)
    if pa.types.is_decimal(have) and pa.types.is_decimal(want):
        return bool(have.scale == want.scale and have.precision <= want.precision)
    for ladder in (_INTEGERS, _FLOATS):
        if have in ladder and want in ladder:
            return ladder.index(have) <= ladder.index(want)
    return bool(have == _small(want))


def _field_fits(have: pa.Field, want: pa.Field) -> bool:
    return (want.nullable or not have.nullable) and _fits(have.type, want.type)


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def _small(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_large_string(data_type):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(data_type) else data_type


def _text(data_type: pa.DataType) -> str:
    return str(data_type).replace("[us, tz=UTC]", " with time zone").replace("[us]", " without time zone")
