"""Columns from Spark into files: what fits into what, and rows apart by key."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from onceward.errors import InvalidRows
from onceward.sinks.parquet.columns import arrow_schema, check_fit, conform, grouped

STRICT = pa.struct([pa.field("a", pa.int32(), nullable=False)])


def test_spark_s_nullability_is_kept_or_relaxed_everywhere() -> None:
    inner = spark.StructType([spark.StructField("a", spark.IntegerType(), nullable=False)])
    columns = spark.StructType(
        [
            spark.StructField("id", spark.LongType(), nullable=False),
            spark.StructField("list", spark.ArrayType(inner, containsNull=False)),
            spark.StructField("map", spark.MapType(spark.StringType(), inner, valueContainsNull=False)),
        ]
    )
    kept = arrow_schema(columns)
    assert not kept.field("id").nullable
    assert not kept.field("list").type.value_field.nullable
    assert kept.field("map").type.item_type == STRICT
    relaxed = arrow_schema(columns, nullable=True)
    assert relaxed.field("id").nullable
    assert relaxed.field("list").type.value_type == pa.struct([("a", pa.int32())])
    assert relaxed.field("map").type.item_field.nullable
    assert not relaxed.field("map").type.key_field.nullable


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.int8(), pa.int64()),
        (pa.float32(), pa.float64()),
        (pa.decimal128(9, 2), pa.decimal128(18, 2)),
        (pa.string(), pa.large_string()),
        (pa.binary(), pa.large_binary()),
        (pa.list_(pa.int8()), pa.large_list(pa.int32())),
        (pa.list_(STRICT), pa.list_(pa.struct([("a", pa.int64())]))),
        (pa.map_(pa.string(), pa.int8()), pa.map_(pa.large_string(), pa.int8())),
        (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    ],
)
def test_equal_and_wider_types_fit(have: pa.DataType, want: pa.DataType) -> None:
    check_fit(pa.schema([("c", have)]), pa.schema([("other", pa.int8()), ("c", want)]), "the table")
    values = pa.array([None, None], have)
    fitted = conform(pa.RecordBatch.from_arrays([values], names=["c"]), pa.schema([("other", pa.int8()), ("c", want)]))
    assert fitted.schema.field("c").type == want
    assert fitted.to_pylist() == [{"other": None, "c": None}] * 2


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (pa.int64(), pa.int32()),
        (pa.int32(), pa.float64()),
        (pa.float64(), pa.float32()),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.decimal128(18, 2), pa.decimal128(9, 2)),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.timestamp("us")),
        (pa.string(), pa.binary()),
        (pa.list_(pa.int8()), pa.map_(pa.int8(), pa.int8())),
        (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
        (pa.struct([("a", pa.int8()), ("b", pa.int8())]), pa.struct([("a", pa.int8())])),
        (pa.struct([("a", pa.int32())]), STRICT),
        (pa.list_(pa.int8()), pa.list_(pa.field("element", pa.int8(), nullable=False))),
    ],
)
def test_anything_else_does_not(have: pa.DataType, want: pa.DataType) -> None:
    with pytest.raises(InvalidRows, match="column 'c' is"):
        check_fit(pa.schema([("c", have)]), pa.schema([("c", want)]), "the table")


def test_a_moment_in_any_zone_is_the_same_moment() -> None:
    moments = pa.array([dt.datetime(2024, 3, 31, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC"))
    batch = pa.RecordBatch.from_arrays([moments.cast(pa.timestamp("us", "Asia/Kathmandu"))], names=["t"])
    assert conform(batch, pa.schema([("t", pa.timestamp("us", "UTC"))]))["t"].to_pylist() == moments.to_pylist()


@pytest.mark.parametrize("keys", [0, 1, 2, 5])
def test_rows_come_apart_by_key_and_stay_in_order(keys: int) -> None:
    draw = np.random.default_rng(keys)
    names = [f"k{number}" for number in range(keys)]
    columns = [pa.array([None if value == 3 else int(value) for value in draw.integers(4, size=500)]) for _ in names]
    rows = pa.Table.from_arrays([pa.array(range(500)), *columns], names=["id", *names])
    parts = list(grouped(rows, [rows[name] for name in names]))
    assert sorted(id_ for _, part in parts for id_ in part["id"].to_pylist()) == list(range(500))
    assert len({tuple(values) for values, _ in parts}) == len(parts)
    for values, part in parts:
        assert part["id"].to_pylist() == sorted(part["id"].to_pylist())
        assert {tuple(row[name] for name in names) for row in part.to_pylist()} == {tuple(values)}


def test_no_rows_are_no_groups() -> None:
    assert list(grouped(pa.table({"id": pa.array([], pa.int64())}), [])) == []


def test_many_keys_do_not_overflow() -> None:
    rows = pa.table({f"k{number}": list(range(300)) for number in range(12)})
    assert len(list(grouped(rows, list(rows.columns)))) == 300
