"""Rows collected in few calls are what PySpark's own toArrow returns."""

from io import BytesIO

import pyarrow as pa
import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from onceward.sinks.collecting import (
    INTERPRETED,
    KEPT,
    Collector,
    Selection,
    _Messages,
    arrow_schema,
    collect_as_planned,
)

COLUMNS = (
    "id",
    "cast(id as string) as text",
    "cast(cast(id as string) as binary) as bytes",
    "cast(1700000000 + id as timestamp) as time",
    "timestamp_ntz '2026-01-02 03:04:05' as wall",
    "cast(id as decimal(20, 3)) as exact",
    "if(id % 2 = 0, null, id) as holes",
    "named_struct('a', id, 'b', array(id, null)) as nested",
    "map('k', id) as mapped",
)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.range(0, 1000, 1, 4).selectExpr(*COLUMNS)


def test_every_type_and_the_order_of_rows_are_kept(rows: DataFrame) -> None:
    found, wanted = Collector().table(rows), rows.toArrow()
    assert found.schema.equals(wanted.schema, check_metadata=True)
    assert found.equals(wanted)
    assert found.column("id").to_pylist() == list(range(1000))


def test_without_a_query_of_its_own_a_frame_gives_the_same(rows: DataFrame) -> None:
    schema = arrow_schema(rows)
    assert collect_as_planned(rows, schema).equals(rows.toArrow())
    assert collect_as_planned(rows, schema, few=True).equals(rows.toArrow()), "interpreted"
    assert rows.sparkSession.sparkContext.getLocalProperty(INTERPRETED[0]) is None
    assert collect_as_planned(rows.where("id < 0"), schema).num_rows == 0


def test_without_rows_the_columns_are_there(rows: DataFrame) -> None:
    found = Collector().table(rows.where("id < 0"))
    assert found.num_rows == 0
    assert found.schema.equals(rows.toArrow().schema)


def test_frames_of_other_columns_are_told_apart(spark: SparkSession) -> None:
    """Also by what may be null, and when more of them have been seen than are kept."""
    collector = Collector()
    for number in [*range(KEPT + 2), 0]:
        found = collector.table(spark.range(1).selectExpr(f"id as c{number}"))
        assert found.schema == pa.schema([pa.field(f"c{number}", pa.int64(), nullable=False)])
    assert collector.table(spark.range(1).selectExpr("if(id > 5, null, id) as c0")).schema.field("c0").nullable


def test_what_fails_in_a_task_is_told_as_pyspark_tells_it(spark: SparkSession) -> None:
    rows = spark.range(10).selectExpr("if(id = 7, raise_error('seven'), id) as it")
    with pytest.raises(SparkRuntimeException, match="seven"):
        rows.toArrow()
    with pytest.raises(SparkRuntimeException, match="seven"):
        Collector().table(rows)
    with pytest.raises(SparkRuntimeException, match="seven"):
        collect_as_planned(rows, arrow_schema(rows))


def test_the_same_expressions_serve_one_frame_after_the_other(spark: SparkSession) -> None:
    doubled = Selection(["*", "id * 2 as twice"])
    for count in (1, 3):
        assert [row.twice for row in doubled.of(spark.range(count)).collect()] == [2 * it for it in range(count)]


@pytest.mark.parametrize("kept", [2, 4, 7, 9, 14])
def test_a_stream_that_breaks_off_within_a_message_is_an_error(kept: int) -> None:
    """No rows are lost silently on their way to the driver."""
    whole = b"\0\0\0\3abc\0\0\0\4defg"
    assert list(_Messages.load_stream(BytesIO(whole))) == [b"abc", b"defg"]
    if kept == 7:  # between two messages nobody can tell by looking: Spark is asked how it ended
        assert list(_Messages.load_stream(BytesIO(whole[:kept]))) == [b"abc"]
        return
    with pytest.raises(EOFError, match="broke off"):
        list(_Messages.load_stream(BytesIO(whole[:kept])))


def test_a_stream_that_breaks_off_between_messages_is_told_by_spark(
    rows: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads leaves before the end: the JVM notices, and it is not taken for fewer rows."""
    large = rows.selectExpr("repeat('x', 100000) as x")
    monkeypatch.setattr(_Messages, "load_stream", staticmethod(lambda _stream: iter([])))
    with pytest.raises(Exception, match=r"(?i)broken pipe|reset|closed"):
        collect_as_planned(large, arrow_schema(large))
