"""What is in an Iceberg table afterwards, and which tables and rows are refused."""

import sys
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import EqualTo, IsNull
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform, VoidTransform
from pyiceberg.types import DateType, IntegerType, LongType, NestedField, StringType, StructType
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import lit

import onceward as ow
from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.errors import DependencyMissing, InvalidRows, TargetUnusable
from onceward.sinks.iceberg import IcebergSink
from support.iceberg import Warehouse
from support.lake import TYPES, Lake, of_all_types

OWNER = Owner(pipeline="p", lineage="l", term=1, guarantee=Guarantee.EXACTLY_ONCE, sink="s")


def expected(rows: DataFrame) -> list[dict[str, Any]]:
    """What Spark itself says of the rows."""
    found: list[dict[str, Any]] = rows.orderBy("id").toArrow().to_pylist()
    return found


def write(lake: Lake[IcebergSink], warehouse: Warehouse, rows: DataFrame, epoch: int = 0, **options: Any) -> None:
    driver = warehouse.sink(**options)
    driver.open(OWNER)
    lake.opened.append(driver)
    lake.run(driver, epoch, rows)


def in_the_files(warehouse: Warehouse) -> list[dict[str, Any]]:
    """The rows as Parquet has them, whatever the table's reader makes of them."""
    found: list[dict[str, Any]] = (
        pa.concat_tables(
            pq.read_table(warehouse.path(name)).cast(schema_to_pyarrow(warehouse.table.schema()))
            for name in warehouse.files
        )
        .sort_by("id")
        .to_pylist()
    )
    return found


@pytest.mark.parametrize("small_epoch_bytes", [0, 10 << 20], ids=["long way", "short way"])
def test_every_type_comes_back_as_spark_has_it(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession, small_epoch_bytes: int
) -> None:
    rows = of_all_types(spark)
    driver = warehouse.sink(small_epoch_bytes=small_epoch_bytes)
    driver.open(OWNER)
    lake.opened.append(driver)
    context = EpochContext(epoch=0, input_rows=6)
    outcome = driver.write(context, rows)
    driver.commit(context, driver.pre_commit(context, outcome))
    assert (outcome.rows, outcome.digest) == (6, driver.digest(context, rows).digest)
    wanted = expected(rows)
    assert in_the_files(warehouse) == wanted
    for column in ("structures", "mappings"):  # pyiceberg reads a null list or map of structs as an empty one
        assert wanted[5][column] is None
        wanted[5][column] = []
    assert warehouse.contents() == wanted
    types = {field.name: str(field.field_type) for field in warehouse.table.schema().fields}
    assert (types["small"], types["moment"], types["local"]) == ("int", "timestamptz", "timestamp")


def test_files_carry_the_table_s_field_ids(lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession) -> None:
    """Readers find columns by them: a renamed column keeps its values."""
    lake.run(lake.driver(), 0, spark.sql("select 1L as id, named_struct('x', 7) as s, array('a') as l"))
    with warehouse.table.update_schema() as change:
        change.rename_column("id", "key")
        change.rename_column("s.x", "y")
    assert warehouse.contents("key") == [{"key": 1, "s": {"y": 7}, "l": ["a"]}]


@pytest.mark.parametrize(
    "column", ["flag", "number", "amount", "large", "double", "text", "bytes", "day", "moment", "local"]
)
def test_a_table_may_be_partitioned_by_a_column_of_any_plain_type(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession, column: str
) -> None:
    rows = of_all_types(spark).select("id", column)
    write(lake, warehouse, rows, partition_by=[column])
    assert [field.transform for field in warehouse.table.spec().fields] == [IdentityTransform()]
    assert warehouse.contents() == expected(rows)
    assert warehouse.table.scan(IsNull(column)).to_arrow()["id"].to_pylist() == [5]  # type: ignore[call-arg, arg-type]


def test_a_table_may_be_partitioned_by_several_columns(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession
) -> None:
    rows = spark.range(1000).selectExpr("id", "concat('n', id % 3) as name", "nullif(id % 5, 4) as part")
    write(lake, warehouse, rows, partition_by=["name", "part"])
    assert warehouse.contents() == expected(rows)
    assert len(warehouse.table.inspect.partitions()) == 15
    some = warehouse.table.scan(EqualTo("name", "n1") & EqualTo("part", 2))  # type: ignore[call-arg, arg-type]
    assert sorted(some.to_arrow()["id"].to_pylist()) == [id_ for id_ in range(1000) if id_ % 3 == 1 and id_ % 5 == 2]
    assert len(list(some.plan_files())) < len(list(warehouse.table.scan().plan_files()))


def test_a_table_may_be_partitioned_by_a_column_in_a_struct_or_by_one_given_up(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession
) -> None:
    warehouse.catalog.create_namespace("ns")
    inner = StructType(NestedField(3, "kind", StringType(), required=False))
    schema = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "event", inner, required=False))
    table = warehouse.catalog.create_table(warehouse.name, schema)
    with table.update_spec() as spec:
        spec.add_field("event.kind", IdentityTransform(), "kind")
        spec.add_field("id", VoidTransform(), "nothing")
    rows = spark.range(6).selectExpr("id", "if(id = 5, null, named_struct('kind', concat('k', id % 2))) as event")
    lake.run(lake.driver(), 0, rows)
    assert warehouse.contents() == expected(rows)
    assert len(warehouse.table.inspect.partitions()) == 3


@pytest.mark.parametrize("column", ["id", "number", "amount", "double", "text", "day", "moment"])
def test_a_filter_finds_every_row(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession, column: str
) -> None:
    """A wrong bound would hide rows: readers pass over files by them."""
    rows = of_all_types(spark, rows=20).where(f"{column} is not null").repartition(4)
    lake.run(lake.driver(), 0, rows)
    for row in expected(rows):
        value = row[column].isoformat() if column in ("day", "moment") else row[column]
        assert warehouse.table.scan(EqualTo(column, value)).to_arrow()["id"].to_pylist() == [row["id"]]  # type: ignore[call-arg, arg-type]


def test_a_filter_finds_the_nulls(lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession) -> None:
    driver = lake.driver()
    lake.run(driver, 0, of_all_types(spark, rows=5).repartition(3, "id"))
    lake.run(driver, 1, of_all_types(spark, rows=5).where("text is null").coalesce(1))
    for column in (
        name for name in TYPES if name not in ("list", "texts", "structure", "structures", "mapping", "mappings")
    ):
        assert warehouse.table.scan(IsNull(column)).to_arrow()["id"].to_pylist() == [5, 5], column  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize(
    "name", ["a.b", "a b", "`", 'q"q', "éü", "select", "a=b", "{}", "1st", "a\nb", "x;drop table", "%41", "_x41"]
)
def test_columns_may_have_any_name(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession, name: str
) -> None:
    rows = spark.range(3).toDF("id").withColumn(name, lit("x"))
    lake.run(lake.driver(), 0, rows)
    assert warehouse.contents() == [{"id": id_, name: "x"} for id_ in range(3)]
    write(lake, Warehouse(warehouse.root, warehouse.catalog, "ns.partitioned"), rows, partition_by=[name])
    found = warehouse.catalog.load_table("ns.partitioned").scan().to_arrow().sort_by("id").to_pylist()
    assert found == [{"id": id_, name: "x"} for id_ in range(3)]


def test_fields_of_structs_may_have_odd_names(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession
) -> None:
    rows = spark.sql("select 1L as id, named_struct('a b', 7, 'c-d', named_struct('é', 'x')) as `s t`")
    lake.run(lake.driver(), 0, rows)
    assert warehouse.contents() == [{"id": 1, "s t": {"a b": 7, "c-d": {"é": "x"}}}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["id", "text", "3 as more"], "have a column 'more'"),
        (["id", "cast(id as int) as text"], "'text' is int32 in the rows and large_string"),
        (["cast(id as string) as id", "text"], "'id' is string"),
        (["id", "interval 1 day as text"], "interval day"),
        (["id", "null as text"], "void"),
    ],
)
def test_rows_that_do_not_fit_are_refused_before_anything_is_written(
    lake: Lake[IcebergSink], warehouse: Warehouse, columns: list[str], message: str
) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    before = sorted(warehouse.root.rglob("*"))
    with pytest.raises(InvalidRows, match=message):
        lake.stage(driver, 1, lake.frame(range(10, 20)).selectExpr(*columns))
    assert sorted(warehouse.root.rglob("*")) == before


def test_a_table_that_has_changed_is_noticed_at_the_next_epoch(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession
) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(2))
    with warehouse.table.update_schema() as change:
        change.add_column("more", IntegerType())
    lake.run(driver, 1, range(2, 3))
    lake.run(driver, 2, spark.sql("select 3 as more, 3L as id, 'x' as text"))
    with warehouse.table.update_spec() as spec:
        spec.add_identity("more")
    lake.run(driver, 3, spark.sql("select 4 as more, 4L as id, 'x' as text"))
    assert [(row["id"], row["more"]) for row in warehouse.contents()] == [
        (0, None),
        (1, None),
        (2, None),
        (3, 3),
        (4, 4),
    ]


def test_narrower_numbers_fit_into_a_wider_column(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession
) -> None:
    lake.run(lake.driver(), 0, spark.sql("select 1L as id, 1.5D as d, cast(1 as decimal(20, 2)) as m"))
    narrow = spark.sql("select cast(2 as short) as id, cast(2.5 as float) as d, cast(2 as decimal(9, 2)) as m")
    lake.run(lake.driver(term=2), 1, narrow)
    assert warehouse.contents()[1] == {"id": 2, "d": 2.5, "m": Decimal("2.00")}


def test_changes_between_vote_and_commit_are_gone_along_with(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    """Requirement B5: the files keep the schema and the partitions they were written with; Iceberg can have several."""
    driver = lake.driver()
    lake.run(driver, 0, range(2))
    committable = lake.stage(driver, 1, range(2, 4))
    with warehouse.table.update_schema() as change:
        change.add_column("more", IntegerType())
        change.rename_column("text", "words")
    with warehouse.table.update_spec() as spec:
        spec.add_identity("id")
    lake.commit(driver, 1, committable)
    assert [(row["id"], row["words"]) for row in warehouse.contents()] == [(id_, f"text {id_}") for id_ in range(4)]
    assert [field.name for field in warehouse.table.spec().fields] == ["id"]
    assert "more" in warehouse.table.schema().column_names


def test_a_column_dropped_between_vote_and_commit_does_no_harm(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(2))
    committable = lake.stage(driver, 1, range(2, 4))
    with warehouse.table.update_schema() as change:
        change.delete_column("text")
    lake.commit(driver, 1, committable)
    assert warehouse.contents() == [{"id": id_} for id_ in range(4)]


def test_a_null_where_the_table_takes_none_is_refused(
    lake: Lake[IcebergSink], warehouse: Warehouse, spark: SparkSession
) -> None:
    warehouse.catalog.create_namespace("ns")
    schema = Schema(NestedField(1, "id", LongType(), required=True), NestedField(2, "day", DateType(), required=False))
    warehouse.catalog.create_table(warehouse.name, schema)
    driver = lake.driver()
    lake.run(driver, 0, spark.sql("select cast(nullif(1, 2) as long) as id"))
    with pytest.raises(InvalidRows, match="takes no nulls"):
        lake.stage(driver, 1, spark.sql("select cast(null as long) as id"))
    with pytest.raises(InvalidRows, match="needs a value in column 'id'"):
        lake.stage(driver, 1, spark.sql("select date'2024-01-01' as day"))


def test_a_missing_table_is_refused_unless_it_may_be_made(warehouse: Warehouse) -> None:
    sink = warehouse.sink(create=False)
    with pytest.raises(TargetUnusable, match="create=True"):
        sink.open(OWNER)
    sink.close()


def test_two_drivers_may_make_the_table_at_once(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    one, other = lake.driver(sink="one"), lake.driver(sink="other")
    staged = lake.stage(one, 0, range(10))
    lake.run(other, 0, range(10, 20))
    lake.commit(one, 0, staged)
    assert warehouse.ids == list(range(20))


def test_partitions_that_do_not_agree_are_refused(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    with pytest.raises(InvalidRows, match="partition_by names 'nothing'"):
        write(lake, warehouse, lake.frame(range(3)), partition_by=["nothing"])
    write(lake, warehouse, lake.frame(range(3)), partition_by="text")
    with pytest.raises(TargetUnusable, match="partitioned by"):
        write(lake, warehouse, lake.frame(range(3)), epoch=1, partition_by=["id"])
    write(lake, warehouse, lake.frame(range(3)), epoch=1)


def test_a_transform_that_needs_another_package_is_refused_with_its_name(
    lake: Lake[IcebergSink], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg_core", None)
    warehouse.catalog.create_namespace("ns")
    made = warehouse.catalog.create_table(warehouse.name, pa.schema([("id", pa.int64()), ("text", pa.string())]))
    with made.update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "bucket")
    with pytest.raises(DependencyMissing, match="pyiceberg-core"):
        lake.driver()


def test_the_table_s_compression_is_used(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    write(lake, warehouse, lake.frame(range(3)), properties={"write.parquet.compression-codec": "uncompressed"})
    footer = pq.read_metadata(warehouse.path(warehouse.files[0]))
    assert footer.row_group(0).column(0).compression == "UNCOMPRESSED"


@pytest.mark.parametrize("name", ["events", "", ".events", "ns.", "a..b"])
def test_a_name_that_names_no_table_is_refused(name: str) -> None:
    with pytest.raises(TargetUnusable, match=r"namespace\.name"):
        IcebergSink(catalog={}, table=name)


def test_a_table_that_the_catalogue_does_not_make_is_refused(warehouse: Warehouse, lake: Lake[IcebergSink]) -> None:
    """A SQL catalogue has no namespaces in namespaces."""
    warehouse.name = "a.b.events"
    with pytest.raises(TargetUnusable, match="cannot be created"):
        lake.run(lake.driver(), 0, range(3))


def test_without_pyiceberg_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(DependencyMissing, match=r"pip install 'onceward\[iceberg\]'"):
        ow.IcebergSink(catalog={}, table="ns.events")
