"""Rows on their way into a sink: hashed by Spark, given to the sink's function in the driver or in tasks."""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import MODULUS, Outcome, PartitionOutcome
from onceward.errors import InvalidRows, RecordTooLarge
from onceward.sinks import rows
from onceward.sinks.collecting import Collector
from onceward.sinks.rows import HASH, Report, Size

UNKNOWN = EpochContext(epoch=1)
SMALL = EpochContext(epoch=1, input_rows=10)
SECOND = EpochContext(epoch=1, attempt=2, input_rows=10)
IDLE = EpochContext(epoch=1, input_rows=0)


@dataclass(frozen=True)
class Count:
    """Reports what it was given, and where it ran."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[Report]:
        total = sum((rows.part_of(batch) for batch in batches), start=PartitionOutcome(0, 0))
        yield {"rows": total.rows, "digest": total.digest, "process": os.getpid()}


@dataclass(frozen=True)
class Refuse:
    """Finds something wrong."""

    error: Exception

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[Report]:
        if any(batch.num_rows for batch in batches):
            raise self.error
        return []


def written(spark: SparkSession, context: EpochContext, query: str) -> Outcome:
    reports = rows.run(spark.sql(query), context, Size(), Count())
    total = sum(report["rows"] for report in reports)
    return Outcome(rows=total, digest=sum(report["digest"] for report in reports) % MODULUS)


@pytest.mark.parametrize("context", [UNKNOWN, SMALL, SECOND], ids=["unknown", "small", "second try"])
@pytest.mark.parametrize("limit", [0, 1, 1000])
def test_a_digest_is_what_a_write_returns(spark: SparkSession, context: EpochContext, limit: int) -> None:
    """Requirement G4: a replay is compared with the first run by digest."""
    query = f"select id, concat('x', id) as text, if(id % 3 = 0, null, id) as odd from range({limit})"
    assert written(spark, context, query) == rows.digest(spark.sql(query))
    assert rows.digest(spark.sql(query)).rows == limit


def test_a_digest_is_the_sum_of_all_hashes_however_large(spark: SparkSession) -> None:
    frame = spark.range(5000)
    hashes = [row[HASH] for row in rows.with_hash(frame).collect()]
    assert rows.digest(frame).digest == sum(hashes) % MODULUS
    assert sum(hash_ % MODULUS for hash_ in hashes) > MODULUS  # it has been all the way round


def test_a_digest_does_not_depend_on_the_order_of_rows(spark: SparkSession) -> None:
    frame = spark.range(100).selectExpr("id", "concat('x', id) as text")
    assert rows.digest(frame) == rows.digest(frame.orderBy("id", ascending=False).repartition(5))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("null as a, 'x' as b", "'x' as a, null as b"),
        ("'' as a, 'x' as b", "'x' as a, '' as b"),
        ("array(1, null) as a", "array(null, 1) as a"),
        ("array(1, null) as a", "array(1) as a"),
        ("array(array(1), array(2)) as a", "array(array(1, 2)) as a"),
        ("named_struct('x', 1, 'y', cast(null as int)) as a", "named_struct('x', cast(null as int), 'y', 1) as a"),
        ("map('x', 1) as a", "map('x', 2) as a"),
        ("map('x', cast(null as int)) as a", "cast(map() as map<string, int>) as a"),
        (
            "array(timestamp'2024-01-01 00:00:00.000001') as a",
            "array(timestamp'2024-01-01 00:00:00.000002') as a",
        ),
        (
            "map('x', timestamp_ntz'2024-01-01 00:00:00.000001') as a",
            "map('x', timestamp_ntz'2024-01-01 00:00:00.000002') as a",
        ),
        ("parse_json('{\"x\": 1}') as a", "parse_json('{\"x\": 2}') as a"),
    ],
)
def test_rows_that_differ_have_different_digests(spark: SparkSession, one: str, other: str) -> None:
    assert rows.digest(spark.sql(f"select {one}")).digest != rows.digest(spark.sql(f"select {other}")).digest


def test_names_with_dots_blanks_and_backticks_are_taken(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as `a.b`, 2 as `c d`, 3 as `e``f`, named_struct('x', 4) as `g.h`")
    assert rows.digest(frame).rows == 1
    assert rows.with_hash(frame).columns == ["a.b", "c d", "e`f", "g.h", HASH]


@pytest.mark.parametrize("context", [UNKNOWN, SMALL], ids=["in tasks", "in the driver"])
def test_a_struct_that_is_null_is_taken_though_its_fields_never_are(spark: SparkSession, context: EpochContext) -> None:
    """Arrow refuses it, if the columns go there as Spark describes them."""
    query = """
        select if(id = 1, null, named_struct('a', id, 'b', array(named_struct('c', id)))) as one,
            if(id = 2, null, map('k', if(id = 0, null, named_struct('d', id)))) as other
        from range(3)
    """
    assert written(spark, context, query) == rows.digest(spark.sql(query))
    assert rows.digest(spark.sql(query)).rows == 3


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (f"select 1 as {HASH}", HASH),
        ("select 1 as a, 2 as A", "several columns of one name: a"),
        ("select map(cast('x' as binary), 1) as m", "keys of type binary"),
        ("select array(named_struct('x', map(array(1), 1))) as m", "keys of type array<int>"),
    ],
)
def test_rows_that_cannot_be_compared_are_refused(spark: SparkSession, query: str, said: str) -> None:
    with pytest.raises(InvalidRows, match=said):
        rows.digest(spark.sql(query))


def test_a_small_epoch_runs_in_the_driver_and_once(spark: SparkSession) -> None:
    reports = rows.run(spark.range(10), SMALL, Size(), Count())
    assert [(report["rows"], report["process"]) for report in reports] == [(10, os.getpid())]


@pytest.mark.parametrize(("context", "size"), [(UNKNOWN, Size()), (SECOND, Size()), (SMALL, Size(small_epoch_bytes=0))])
def test_other_epochs_run_in_tasks(spark: SparkSession, context: EpochContext, size: Size) -> None:
    reports = rows.run(spark.range(0, 10, 1, 2), context, size, Count())
    assert sorted(report["rows"] for report in reports) == [5, 5]
    assert os.getpid() not in {report["process"] for report in reports}


@pytest.mark.parametrize("context", [UNKNOWN, SMALL], ids=["in tasks", "in the driver"])
def test_an_error_of_ours_keeps_its_type(spark: SparkSession, context: EpochContext) -> None:
    with pytest.raises(RecordTooLarge, match="far too large"):
        rows.run(spark.range(10), context, Size(), Refuse(RecordTooLarge("far too large")))


def test_any_other_error_fails_the_task(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="out of luck"):
        rows.run(spark.range(10), UNKNOWN, Size(), Refuse(RuntimeError("out of luck")))


def test_the_estimate_rises_at_once_and_falls_slowly() -> None:
    size, context = Size(small_epoch_bytes=100_000), EpochContext(epoch=1, input_rows=100)
    assert size.is_small(context)
    size.learn(context, 100 * 5000)
    assert not size.is_small(context)
    size.learn(context, 100)
    assert not size.is_small(context)
    for _ in range(20):
        size.learn(context, 100)
    assert size.is_small(context)
    assert not size.is_small(UNKNOWN)


@pytest.mark.parametrize("context", [IDLE, SMALL], ids=["without input", "with little input"])
def test_a_large_result_of_a_small_input_goes_over_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, context: EpochContext
) -> None:
    """A watermark closes a million windows: the driver sees a bounded part of them, and no row twice."""
    frame, size = spark.range(0, 100_000, 1, 4), Size(small_epoch_bytes=100_000)
    arrived, real = [], Collector.table

    def table(self: Collector, frame: DataFrame) -> pa.Table:
        arrived.append(real(self, frame))
        return arrived[-1]

    monkeypatch.setattr(Collector, "table", table)
    assert size.is_small(context)
    reports = rows.run(frame, context, size, Count())
    assert [table.num_rows for table in arrived] == [4 * (rows.LEAST_ROWS + 1)]
    assert sorted(report["rows"] for report in reports) == [25_000] * 4
    assert os.getpid() not in {report["process"] for report in reports}
    assert not size.is_small(context), "the next one is not tried in the driver first"


def test_epochs_without_input_are_judged_by_their_own(spark: SparkSession) -> None:
    size = Size()
    rows.run(spark.range(10), IDLE, size, Count())
    assert size.is_small(IDLE)
    size.learn(IDLE, 50_000_000)
    assert not size.is_small(IDLE)
    assert size.is_small(SMALL), "what epochs without input put out says nothing about records"
    for _ in range(20):
        size.learn(IDLE, 0)
    assert size.is_small(IDLE)


@pytest.mark.parametrize(("more", "collected"), [(0, True), (1, False)])
def test_the_bound_of_a_partition_is_exact(spark: SparkSession, more: int, collected: bool) -> None:
    """With one row more than it may give, a partition gives none: nothing is ever cut off."""
    limit = rows.LEAST_ROWS + more
    uneven = spark.range(0, 2 * limit, 1, 2).where(f"id < {rows.LEAST_ROWS - 5} or id >= {limit}")
    table = Size(small_epoch_bytes=1_000).collect(rows.with_hash(uneven), IDLE)
    assert (table is not None) is collected
    if table is not None:
        assert table.num_rows == 2 * rows.LEAST_ROWS - 5
        assert table.column_names == ["id", HASH]


def test_every_row_is_read_though_only_some_are_collected(spark: SparkSession) -> None:
    """A stateful operator keeps its state when its partition ends: cut short, it would keep none."""
    seen = spark.sparkContext.accumulator(0)

    def through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.add(batch.num_rows)
            yield batch

    frame = spark.range(0, 100_000, 1, 2).mapInArrow(through, "id long")
    assert Size(small_epoch_bytes=1_000).collect(rows.with_hash(frame), IDLE) is None
    assert seen.value == 100_000
