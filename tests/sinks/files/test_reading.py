"""What the file sink writes is read back as it was, by Spark and by Arrow."""

import csv
import gzip
import io
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

from onceward.errors import InvalidRows
from onceward.sinks.files.writing import OPEN_FILES

WAYS = pytest.mark.parametrize("input_rows", [10, None], ids=["short way", "long way"])

EVERYTHING = """
    select
        id,
        elt(1 + id, 'plain', 'ünïcödé “€” 漢字 🎈', '', null, ' blanks ', 'line\\nbreak\\r\\nand\\rmore',
            'say "hi", \\\\ or \\'ho\\'', '\\t') text,
        if(id % 2 = 0, true, null) truth,
        cast(id as byte) b, cast(-id as short) s, cast(id * 1000 as int) i,
        cast(id / 3 as float) f, if(id = 1, double('nan'), if(id = 2, double('-infinity'), id / 3)) d,
        cast(id / 3 as decimal(38, 18)) decimal_wide, if(id = 3, null, cast(-id / 4 as decimal(9, 2))) decimal_narrow,
        element_at(array(date'0001-01-01', date'1969-12-31', date'9999-12-31'), cast(1 + id % 3 as int)) day,
        element_at(
            array(timestamp'1582-01-02 03:04:05.678901', timestamp'2024-03-31 02:30:00.000001', null),
            cast(1 + id % 3 as int)
        ) moment,
        if(id = 1, timestamp_ntz'2024-03-31 02:30:00.123456', timestamp_ntz'1900-01-01 00:00:00') local
    from range(0, 8, 1, 2)
"""
NESTED = """
    select
        *,
        if(id = 1, null, cast('bytes' as binary)) raw,
        if(id = 1, null, array(id, null, -id)) many,
        if(id = 2, null, map('k', id, 'ü', null)) pairs,
        if(id = 3, null, named_struct('a', id, 'b', array(named_struct('c', moment, 'd', map('e', day))))) inner
    from everything
"""


def differences(found: DataFrame, expected: DataFrame) -> list[str]:
    """As text, so that nan is nan, and maps in any order are equal."""
    one, other = (
        [row.asDict(recursive=True) for row in sorted(frame.collect(), key=lambda row: row.id)]
        for frame in (found.drop("epoch"), expected)
    )
    return differing(one, other)


def differing(one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[str]:
    assert len(one) == len(other)
    return [
        f"{mine['id']}: {name}: {mine[name]!r}, not {value!r}"
        for mine, theirs in zip(one, other, strict=True)
        for name, value in theirs.items()
        if mine[name] != value and repr(mine[name]) != repr(value)
    ]


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, str(before))


def unpacked(part: Path) -> str:
    data = part.read_bytes()
    return (gzip.decompress(data) if part.name.endswith(".gz") else data).decode()


@pytest.fixture
def everything(spark: SparkSession) -> DataFrame:
    spark.sql(EVERYTHING).createOrReplaceTempView("everything")
    return spark.table("everything")


@pytest.fixture
def nested(spark: SparkSession, everything: DataFrame) -> DataFrame:
    return spark.sql(NESTED)


def write(rehearsal: Any, frame: DataFrame, input_rows: int | None = None) -> None:
    process = rehearsal.start()
    context = process.begin(0, input_rows=input_rows)
    process.publish(process.pre_commit(context, process.write(context, frame), ()))


@WAYS
@pytest.mark.parametrize("compression", ["zstd", "snappy", "gzip", "lz4", "none"])
def test_parquet_is_read_back_by_spark_as_it_was(
    spark: SparkSession, rehearse: Any, target: Path, nested: DataFrame, compression: str, input_rows: int | None
) -> None:
    write(rehearse(compression=compression), nested, input_rows)
    found = spark.read.parquet(str(target))
    assert found.columns == [*nested.columns, "epoch"]
    assert found.drop("epoch").schema.simpleString() == nested.schema.simpleString()
    assert differences(found, nested) == []


@WAYS
def test_parquet_is_read_by_arrow_too(rehearse: Any, target: Path, nested: DataFrame, input_rows: int | None) -> None:
    write(rehearse(), nested, input_rows)
    found = pyarrow.dataset.dataset(target, format="parquet", partitioning="hive").to_table().sort_by("id")
    # Not `toArrow`: it cannot take nulls in a struct whose fields are never null.
    expected = pa.Table.from_batches(nested.orderBy("id")._collect_as_arrow())  # type: ignore[operator]
    assert differing(found.to_pylist(), expected.to_pylist()) == []
    assert {str(value)[:13] for value in found.column("epoch").to_pylist()} == {"000000000000-"}


@WAYS
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_json_is_read_back_as_it_was(
    spark: SparkSession, rehearse: Any, target: Path, nested: DataFrame, compression: str, input_rows: int | None
) -> None:
    write(rehearse(format="json", compression=compression), nested, input_rows)
    found = spark.read.schema(nested.schema).json(str(target))
    assert differences(found, nested) == []
    parts = list(target.rglob("part-*"))
    assert {part.name.partition(".")[2] for part in parts} == {"json.gz" if compression == "gzip" else "json"}
    lines = [json.loads(line) for part in parts for line in unpacked(part).splitlines()]
    assert sorted(line["id"] for line in lines) == list(range(8))


@WAYS
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_csv_is_read_back_as_it_was(
    spark: SparkSession, rehearse: Any, target: Path, everything: DataFrame, compression: str, input_rows: int | None
) -> None:
    write(rehearse(format="csv", compression=compression), everything, input_rows)
    reader = spark.read.schema(everything.schema).options(header=True, escape='"', nullValue="\\N", multiLine=True)
    assert differences(reader.csv(str(target)), everything) == []
    texts = [io.StringIO(unpacked(part), newline="") for part in target.rglob("part-*")]
    found = [row for text in texts for row in csv.DictReader(text)]
    assert {row["id"]: row["text"] for row in found} == {
        str(row.id): row.text or "" for row in everything.collect()
    }  # Python's reader knows no null


def test_csv_may_have_no_header_and_odd_names_in_it(spark: SparkSession, rehearse: Any, target: Path) -> None:
    frame = spark.sql("select 1 as id, 'x' as `a,b`, 'y' as `say \"hi\"`")
    write(rehearse(format="csv"), frame)
    (part,) = target.rglob("part-*")
    assert part.read_text() == 'id,"a,b","say ""hi"""\n1,x,y\n'
    bare = target.with_name("bare")
    write(rehearse(bare, format="csv", header=False), frame)
    (part,) = bare.rglob("part-*")
    assert part.read_text() == "1,x,y\n"


def test_a_null_alone_in_a_line_of_csv_is_not_lost(spark: SparkSession, rehearse: Any, target: Path) -> None:
    """Readers pass over empty lines."""
    frame = spark.sql("select explode(array(1, null, 3)) as id")
    write(rehearse(format="csv"), frame)
    found = spark.read.schema(frame.schema).options(header=True, escape='"').csv(str(target))
    assert sorted(str(row.id) for row in found.collect()) == ["1", "3", "None"]


ODD = [
    "DE",
    None,
    "a/b=c%d e",
    "%2F",
    "..",
    "../../../../up",
    "/etc/passwd",
    "ü é 漢字 🎈",
    "tab\tline\nend",
    "'\"#*?\\{}[]^:|<>~&$;,!",
    ".hidden",
    "_hidden",
    "x" * 200,
    "\x7f\x01",
]


@WAYS
def test_partition_values_are_read_back_as_they_were(
    spark: SparkSession, rehearse: Any, target: Path, tmp_path: Path, input_rows: int | None
) -> None:
    """And no value, whatever it holds, makes a path outside of the epoch's directory."""
    frame = spark.createDataFrame(
        [(number, value, number % 2) for number, value in enumerate(ODD)], "id long, country string, kind int"
    )
    before = set(tmp_path.iterdir())
    write(rehearse(partition_by=("country", "kind")), frame, input_rows)
    assert set(tmp_path.iterdir()) - before <= {target, target.parent / ".out.onceward"}
    (epoch,) = target.iterdir()
    assert all(part.relative_to(epoch).parts[0].startswith("country=") for part in epoch.rglob("part-*"))

    with setting(spark, "spark.sql.sources.partitionColumnTypeInference.enabled", "false"):
        by_spark = {row.id: row.country for row in spark.read.parquet(str(target)).collect()}
    assert by_spark == dict(enumerate(ODD))
    schema = pa.schema([("epoch", pa.string()), ("country", pa.string()), ("kind", pa.int32())])
    partitioning = pyarrow.dataset.partitioning(schema, flavor="hive")
    dataset = pyarrow.dataset.dataset(target, format="parquet", partitioning=partitioning).to_table()
    by_arrow = dict(zip(dataset.column("id").to_pylist(), dataset.column("country").to_pylist(), strict=True))
    assert by_arrow == dict(enumerate(ODD))


def test_directories_are_named_as_spark_names_them(
    spark: SparkSession, rehearse: Any, target: Path, tmp_path: Path
) -> None:
    frame = spark.sql("""
        select id, elt(1 + id, 'a b', 'ü/%', '', null, '=', '2024-01-01') as text, cast(id as decimal(9, 2)) as amount,
            id % 2 = 0 as truth, date_add(date'2024-01-01', cast(id as int)) as day,
            timestamp'2024-01-01 10:00:00' + make_interval(0, 0, 0, 0, 0, 0, id + 0.5) as moment, id / 3 as ratio
        from range(6)
    """)
    for column in ("text", "amount", "truth", "day", "moment", "ratio"):
        path, ours = tmp_path / f"spark-{column}", tmp_path / f"ours-{column}"
        frame.write.partitionBy(column).parquet(str(path))
        write(rehearse(ours, partition_by=column), frame)
        expected = {entry.name for entry in path.iterdir() if "=" in entry.name}
        (epoch,) = ours.iterdir()
        assert {entry.name for entry in epoch.iterdir() if "=" in entry.name} == expected


def test_more_partitions_than_files_may_be_open_are_written(spark: SparkSession, rehearse: Any, target: Path) -> None:
    many = OPEN_FILES * 3
    frame = spark.range(0, many * 4, 1, 1).selectExpr("id", f"id % {many} as bucket")
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "500"):  # every batch meets other partitions
        write(rehearse(partition_by="bucket"), frame)
    found = spark.read.parquet(str(target))
    assert found.count() == many * 4
    assert found.selectExpr("count_if(id % " + str(many) + " != bucket)").first()[0] == 0


def test_row_groups_are_bounded_and_large(spark: SparkSession, rehearse: Any, target: Path) -> None:
    """Many small Arrow batches make one row group, not many."""
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "1000"):
        write(rehearse(), spark.range(0, 50_000, 1, 1).toDF("id"))
    (part,) = target.rglob("part-*")
    assert pyarrow.parquet.ParquetFile(part).metadata.num_row_groups == 1


@pytest.mark.parametrize(
    ("query", "options", "said"),
    [
        ("select 1 as id, 2 as Epoch", {}, "epoch_column="),
        ("select 1 as id", {"partition_by": "country"}, "partition_by names \\['country'\\]"),
        ("select 1 as id", {"partition_by": "id"}, "nothing is left"),
        ("select 1 as id, array(1) as a", {"partition_by": "a"}, "partition_by names 'a'"),
        ("select 1 as id, 2 as ID", {}, "differ by case"),
        ("select 1 as id, null as nothing", {}, "'nothing'.*void"),
        ("select 1 as id, interval '1' day as span", {}, "'span'.*interval"),
        ("select 1 as id, array(parse_json('1')) as v", {}, "'v'.*variant"),
        ("select 1 as id, array(1) as a", {"format": "csv"}, "a csv file holds no type array<int>.*to_json"),
        ("select 1 as id, cast('x' as binary) as a", {"format": "csv"}, "holds no type binary"),
        ("select 1 as id, repeat('é', 200) as c", {"partition_by": "c"}, "'c' has a value .* 402 bytes"),
    ],
)
def test_rows_that_files_cannot_hold_are_refused(
    spark: SparkSession, rehearse: Any, query: str, options: dict[str, Any], said: str
) -> None:
    process = rehearse(**options).start()
    for context in (process.begin(0), process.begin(0, attempt=2)):
        with pytest.raises(InvalidRows, match=said):
            process.write(context, spark.sql(query))


def test_a_reader_that_lists_all_the_time_never_meets_a_part(rehearse: Any, target: Path) -> None:
    """Requirement A7, for a reader that walks through everything it can see, hidden or not."""
    rehearsal = rehearse(partition_by="bucket")
    process, torn, done = rehearsal.start(), [], threading.Event()
    files_of_an_epoch = 2 * 8  # two tasks, eight buckets

    def walk() -> None:
        while not done.is_set():
            for epoch in target.iterdir():
                found = [name for _, _, names in os.walk(epoch) for name in names if name.startswith("part-")]
                if len(found) != files_of_an_epoch:
                    torn.append((epoch, found))

    walker = threading.Thread(target=walk)
    walker.start()
    try:
        for epoch in range(8):
            context = process.begin(epoch, input_rows=None)
            frame = rehearsal.frame(range(64 * epoch, 64 * epoch + 64)).selectExpr("id", "id % 8 as bucket")
            prepared = process.pre_commit(context, process.write(context, frame), ())
            process.publish(prepared)
    finally:
        done.set()
        walker.join()
    assert torn == []
    rehearsal.expect_visible(range(64 * 8), when="after eight epochs")
