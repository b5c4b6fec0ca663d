"""What is in a Delta table afterwards, and which tables and rows are refused."""

import datetime as dt
import json
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Schema, TableFeatures
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import onceward as ow
from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.errors import DependencyMissing, InvalidRows, TargetUnusable
from onceward.sinks.delta import DeltaSink
from onceward.sinks.delta.layout import partition_text
from support.lake import TYPES, Lake, of_all_types

PLAIN = pa.schema([("id", pa.int64()), ("text", pa.string())])


def contents(table: Path, order: str = "id") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().sort_by(order).to_pylist()
    return found


def expected(rows: DataFrame) -> list[dict[str, Any]]:
    """What Spark itself says of the rows; a time with a zone is the same moment in UTC."""
    found: list[dict[str, Any]] = rows.orderBy("id").toArrow().to_pylist()
    return found


def write(lake: Lake[DeltaSink], rows: DataFrame, epoch: int = 0, **options: Any) -> DeltaSink:
    driver = DeltaSink(lake.make().path, **options)
    driver.open(Owner(pipeline="p", lineage="l", term=1, guarantee=Guarantee.EXACTLY_ONCE, sink="s"))
    lake.run(driver, epoch, rows)
    return driver


@pytest.mark.parametrize("small_epoch_bytes", [0, 10 << 20], ids=["long way", "short way"])
def test_every_type_comes_back_as_spark_has_it(
    lake: Lake[DeltaSink], table: Path, spark: SparkSession, small_epoch_bytes: int
) -> None:
    rows = of_all_types(spark)
    driver = DeltaSink(table, small_epoch_bytes=small_epoch_bytes)
    driver.open(Owner(pipeline="p", lineage="l", term=1, guarantee=Guarantee.EXACTLY_ONCE, sink="s"))
    context = EpochContext(epoch=0, input_rows=6)
    outcome = driver.write(context, rows)
    driver.commit(context, driver.pre_commit(context, outcome))
    assert (outcome.rows, outcome.digest) == (6, driver.digest(context, rows).digest)
    assert contents(table) == expected(rows)
    types = {found.name: found.type.type for found in DeltaTable(table).schema().fields}
    assert (types["small"], types["moment"], types["local"]) == ("byte", "timestamp", "timestamp_ntz")


@pytest.mark.parametrize("column", ["flag", "small", "amount", "double", "text", "day", "moment", "local"])
def test_a_table_may_be_partitioned_by_a_column_of_any_plain_type(
    lake: Lake[DeltaSink], table: Path, spark: SparkSession, column: str
) -> None:
    rows = of_all_types(spark).select("id", column)
    write(lake, rows, partition_by=[column])
    assert DeltaTable(table).metadata().partition_columns == [column]
    assert contents(table) == expected(rows)


def test_a_table_may_be_partitioned_by_several_columns(lake: Lake[DeltaSink], table: Path, spark: SparkSession) -> None:
    rows = spark.range(1000).selectExpr(
        "id", "concat('n', id % 3) as name", "nullif(id % 5, 4) as part", "id % 2 as two"
    )
    write(lake, rows, partition_by=["name", "part"])
    found = DeltaTable(table)
    assert contents(table) == expected(rows)
    assert len(found.partitions()) == 15
    some = found.to_pyarrow_table(filters=[("name", "=", "n1"), ("part", "=", 2)])
    assert sorted(some["id"].to_pylist()) == [id_ for id_ in range(1000) if id_ % 3 == 1 and id_ % 5 == 2]


def test_an_empty_partition_value_is_null_as_delta_has_it(
    lake: Lake[DeltaSink], table: Path, spark: SparkSession
) -> None:
    write(lake, spark.sql("select 1L as id, '' as name union all select 2L, null"), partition_by="name")
    assert contents(table) == [{"id": 1, "name": None}, {"id": 2, "name": None}]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", None),
        ("a=b/c %", "a=b/c %"),
        (True, "true"),
        (-7, "-7"),
        (Decimal("-0.50"), "-0.50"),
        (Decimal("1E+3"), "1000"),
        (1.5, "1.5"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC).replace(tzinfo=None), "2024-02-29 01:02:03.000000"),
        (dt.datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=dt.UTC), "2024-02-29T01:02:03.000004Z"),
    ],
)
def test_partition_values_have_the_protocol_s_form(value: object, text: str | None) -> None:
    assert partition_text(value) == text


def test_a_file_is_named_with_its_number_of_rows(lake: Lake[DeltaSink], table: Path) -> None:
    write(lake, lake.frame(range(7)).coalesce(1))
    newest = max((table / "_delta_log").glob("*.json"))
    (added,) = [json.loads(line)["add"] for line in newest.read_text().splitlines() if '"add"' in line]
    assert json.loads(added["stats"]) == {"numRecords": 7}
    assert DeltaTable(table).count() == 7


def test_deltalake_loses_rows_of_files_with_bounds_for_some_columns(lake: Lake[DeltaSink], table: Path) -> None:
    """Why our files have none. Once this fails, they may."""
    lake.run(lake.driver(), 0, range(3))
    newest = max((table / "_delta_log").glob("*.json"))
    bounds = {"numRecords": 3, "minValues": {"id": 0}, "maxValues": {"id": 2}, "nullCount": {"id": 0, "text": 0}}
    entries = [json.loads(line) for line in newest.read_text().splitlines()]
    for entry in entries:
        if "add" in entry:
            entry["add"]["stats"] = json.dumps(bounds)
    newest.write_text("\n".join(json.dumps(entry) for entry in entries))
    assert len(contents(table)) == 3
    assert DeltaTable(table).to_pyarrow_table(filters=[("text", "=", "text 1")]).num_rows == 0


@pytest.mark.parametrize("column", ["id", "number", "amount", "double", "text", "day", "moment"])
def test_a_filter_finds_every_row(lake: Lake[DeltaSink], table: Path, spark: SparkSession, column: str) -> None:
    rows = of_all_types(spark, rows=20).where(f"{column} is not null").repartition(4)
    write(lake, rows)
    for row in expected(rows):
        found = DeltaTable(table).to_pyarrow_table(filters=[(column, "=", row[column])])
        assert found["id"].to_pylist() == [row["id"]]


def test_a_filter_finds_the_nulls(lake: Lake[DeltaSink], table: Path, spark: SparkSession) -> None:
    write(lake, of_all_types(spark, rows=5).repartition(3, "id"))
    write(lake, of_all_types(spark, rows=5).where("text is null").coalesce(1), epoch=1)
    for column in TYPES:
        found = DeltaTable(table).to_pyarrow_table(filters=pc.field(column).is_null())
        assert found["id"].to_pylist() == [5, 5], column


@pytest.mark.parametrize("name", ["a.b", "`", 'q"q', "éü", "select", "$", "a/b", "%41"])
def test_columns_may_have_any_name_that_delta_takes(
    lake: Lake[DeltaSink], table: Path, spark: SparkSession, name: str
) -> None:
    rows = spark.range(3).toDF("id").withColumn(name, lit("x"))
    write(lake, rows)
    assert contents(table) == [{"id": id_, name: "x"} for id_ in range(3)]


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "a{", "(b", "a=b", "a\tb", "a\nb"])
def test_names_that_spark_could_not_read_are_refused(
    lake: Lake[DeltaSink], table: Path, spark: SparkSession, name: str
) -> None:
    with pytest.raises(InvalidRows, match="rename it"):
        write(lake, spark.range(3).toDF("id").withColumn(name, lit("x")))
    assert not table.exists()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["id", "text", "3 as more"], "has a column 'more'|have a column 'more'"),
        (["id", "cast(id as int) as text"], "'text' is int32 in the rows and string"),
        (["cast(id as string) as id", "text"], "'id' is string"),
        (["id", "text", "id as ID"], "two columns"),
        (["id", "interval 1 day as text"], "interval day"),
        (["id", "null as text"], "void"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    lake: Lake[DeltaSink], table: Path, spark: SparkSession, columns: list[str], message: str
) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    before = sorted(table.rglob("*"))
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidRows, match=message):
            lake.stage(driver, 1, lake.frame(range(10, 20)).selectExpr(*columns))
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert sorted(table.rglob("*")) == before


def test_a_table_that_has_changed_is_noticed_at_the_next_epoch(
    lake: Lake[DeltaSink], table: Path, spark: SparkSession
) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(2))
    DeltaTable(table).alter.add_columns([Schema.from_arrow(pa.schema([("more", pa.int32())])).fields[0]])
    lake.run(driver, 1, range(2, 3))
    lake.run(driver, 2, spark.sql("select 3 as more, 3L as id, 'x' as text"))
    assert [(row["id"], row["more"]) for row in contents(table)] == [(0, None), (1, None), (2, None), (3, 3)]


def test_narrower_numbers_fit_into_a_wider_column(lake: Lake[DeltaSink], table: Path, spark: SparkSession) -> None:
    lake.run(lake.driver(), 0, spark.sql("select 1L as id, 1.5D as d, cast(1 as decimal(20, 2)) as m"))
    narrow = spark.sql("select cast(2 as short) as id, cast(2.5 as float) as d, cast(2 as decimal(9, 2)) as m")
    lake.run(lake.driver(term=2), 1, narrow)
    assert contents(table)[1] == {"id": 2, "d": 2.5, "m": Decimal("2.00")}


def test_a_change_between_vote_and_commit_that_does_no_harm_is_gone_along_with(
    lake: Lake[DeltaSink], table: Path
) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(2))
    committable = lake.stage(driver, 1, range(2, 4))
    DeltaTable(table).alter.add_columns([Schema.from_arrow(pa.schema([("more", pa.int32())])).fields[0]])
    lake.commit(driver, 1, committable)
    assert [row["id"] for row in contents(table)] == [0, 1, 2, 3]


@pytest.mark.parametrize("partition_by", [[], ["id"]], ids=["other type", "other partitions"])
def test_a_change_between_vote_and_commit_that_would_do_harm_stops_it(
    lake: Lake[DeltaSink], table: Path, partition_by: list[str]
) -> None:
    """Requirement B5: the epoch is decided, and waits until the table is as it was."""
    driver = lake.driver()
    lake.run(driver, 0, range(2))
    committable = lake.stage(driver, 1, range(2, 4))
    other = PLAIN if partition_by else pa.schema([("id", pa.string()), ("text", pa.string())])
    DeltaTable.create(table, Schema.from_arrow(other), mode="overwrite", partition_by=partition_by)
    with pytest.raises(TargetUnusable, match="was changed while epoch 1"):
        lake.commit(driver, 1, committable)
    DeltaTable.create(table, Schema.from_arrow(PLAIN), mode="overwrite")
    lake.commit(driver, 1, committable)
    assert [row["id"] for row in contents(table)] == [2, 3]


def test_a_null_where_the_table_takes_none_is_refused(lake: Lake[DeltaSink], table: Path, spark: SparkSession) -> None:
    strict = pa.schema([pa.field("id", pa.int64(), nullable=False), ("text", pa.string())])
    DeltaTable.create(table, Schema.from_arrow(strict))
    driver = lake.driver()
    lake.run(driver, 0, range(2))
    with pytest.raises(InvalidRows, match="takes no nulls"):
        lake.stage(driver, 1, spark.sql("select cast(null as long) as id, 'x' as text"))
    with pytest.raises(InvalidRows, match="needs a value in column 'id'"):
        lake.stage(driver, 1, spark.sql("select 'x' as text"))


def test_a_missing_table_is_refused_unless_it_may_be_made(table: Path) -> None:
    sink = DeltaSink(table, create=False)
    with pytest.raises(TargetUnusable, match="create=True"):
        sink.open(Owner(pipeline="p", lineage="l", term=1, guarantee=Guarantee.EXACTLY_ONCE))
    assert not table.exists()


def test_partitions_that_do_not_agree_are_refused(lake: Lake[DeltaSink], table: Path, spark: SparkSession) -> None:
    with pytest.raises(InvalidRows, match="partition_by names 'nothing'"):
        write(lake, lake.frame(range(3)), partition_by=["nothing"])
    with pytest.raises(InvalidRows, match="besides"):
        write(lake, lake.frame(range(3)), partition_by=["id", "text"])
    with pytest.raises(TargetUnusable, match="cannot be partitioned by 'bytes'"):
        write(lake, of_all_types(spark), partition_by=["bytes"])
    write(lake, lake.frame(range(3)), partition_by=["text"])
    with pytest.raises(TargetUnusable, match="partitioned by"):
        write(lake, lake.frame(range(3)), epoch=1, partition_by=["id"])
    write(lake, lake.frame(range(3)), epoch=1)


def test_tables_that_an_append_would_break_are_refused(lake: Lake[DeltaSink], table: Path) -> None:
    DeltaTable.create(table, Schema.from_arrow(PLAIN)).alter.add_constraint({"large": "id > 5"})
    with pytest.raises(TargetUnusable, match=r"delta\.constraints\.large"):
        lake.driver()


@pytest.mark.parametrize("feature", ["RowTracking", "DomainMetadata", "IdentityColumns"])
def test_features_that_deltalake_cannot_write_are_refused(lake: Lake[DeltaSink], table: Path, feature: str) -> None:
    made = DeltaTable.create(table, Schema.from_arrow(PLAIN))
    made.alter.add_feature(getattr(TableFeatures, feature), allow_protocol_versions_increase=True)
    with pytest.raises(TargetUnusable, match=feature[0].lower() + feature[1:]):
        lake.driver()


@pytest.mark.parametrize("feature", ["AppendOnly", "ChangeDataFeed", "CheckConstraints", "Invariants"])
def test_features_that_do_no_harm_are_taken(lake: Lake[DeltaSink], table: Path, feature: str) -> None:
    made = DeltaTable.create(table, Schema.from_arrow(PLAIN))
    made.alter.add_feature(getattr(TableFeatures, feature), allow_protocol_versions_increase=True)
    lake.run(lake.driver(), 0, range(3))
    assert [row["id"] for row in contents(table)] == [0, 1, 2]


def test_column_mapping_is_refused(lake: Lake[DeltaSink], table: Path) -> None:
    DeltaTable.create(table, Schema.from_arrow(PLAIN), configuration={"delta.columnMapping.mode": "name"})
    with pytest.raises(TargetUnusable, match="columnMapping"):
        lake.driver()


@pytest.mark.parametrize("name", ["a b", "é#x", "q?z"])
def test_a_directory_may_have_an_odd_name(tmp_path: Path, lake: Lake[DeltaSink], name: str) -> None:
    lake.make = lambda: DeltaSink((tmp_path / name).as_uri())
    lake.run(lake.driver(), 0, range(3))
    assert [row["id"] for row in contents(tmp_path / name)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("s3://bucket/table", "does not write to s3: stores"),
        ("abfss://container@account/table", "does not write to abfss: stores"),
        ("file://elsewhere/table", "another machine"),
        ("/data/100%/table", "%-signs"),
    ],
)
def test_places_that_cannot_be_trusted_are_refused(path: str, message: str) -> None:
    with pytest.raises(TargetUnusable, match=message):
        DeltaSink(path)


def test_a_file_in_the_way_is_refused(table: Path, lake: Lake[DeltaSink]) -> None:
    table.write_text("not a table")
    with pytest.raises(TargetUnusable, match="no directory"):
        lake.driver()


def test_without_deltalake_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, table: Path) -> None:
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(DependencyMissing, match=r"pip install 'onceward\[delta\]'"):
        ow.DeltaSink(table)
