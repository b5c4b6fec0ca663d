"""The long way: tasks copy at once, may be run again, and only what they report counts."""

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from onceward.epoch.contract import EpochContext, Guarantee
from onceward.errors import EpochFailed
from onceward.sinks import rows as epoch_rows
from onceward.sinks.postgres import PostgresSink
from support.postgres import PASSWORD, Database

Opens = Callable[..., PostgresSink]
Puts = Callable[..., Any]


@pytest.fixture(autouse=True)
def target(database: Database) -> None:
    database.admin("CREATE TABLE target (id bigint NOT NULL)")


@pytest.fixture
def dying_worker(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The first Python worker that has copied something dies before it can say so; the file then exists."""
    once = tmp_path / "died"
    environment = spark.sparkContext.environment
    environment.update(ONCEWARD_CRASH_AT="task-writing", ONCEWARD_CRASH_ONCE=str(once))
    yield once
    for name in ("ONCEWARD_CRASH_AT", "ONCEWARD_CRASH_ONCE"):
        del environment[name]


def test_a_task_that_is_run_again_after_its_copy_counts_once(
    spark: SparkSession, database: Database, opened: Opens, dying_worker: Path
) -> None:
    """Requirement A1: the rows of the first run are in the staging table for good, and belong to nobody."""
    sink, context = opened(table="target"), EpochContext(epoch=3)
    sink.begin(context)
    outcome = sink.write(context, spark.range(0, 1000, 1, 4))
    assert dying_worker.exists()
    assert outcome.rows == 1000
    committable = sink.pre_commit(context, outcome)
    assert database.column(f"SELECT count(*) FROM onceward.{database.staged()[0]}")[0] > 1000
    sink.commit(context, committable)
    assert database.column("SELECT id FROM target ORDER BY id") == list(range(1000))


def test_a_work_function_that_runs_twice_counts_once(
    spark: SparkSession, database: Database, opened: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs of one task that both succeed, of which Spark knows one: as with a stage that is run again."""
    real = epoch_rows.run_in_tasks

    def run_twice(rows: Any, context: Any, size: Any, work: Any) -> Any:
        list(pickle.loads(pickle.dumps(work))(iter(rows.toArrow().to_batches())))
        return real(rows, context, size, work)

    monkeypatch.setattr(epoch_rows, "run_in_tasks", run_twice)
    sink, context = opened(table="target", mode="append"), EpochContext(epoch=0)
    sink.begin(context)
    outcome = sink.write(context, spark.range(100))
    sink.commit(context, sink.pre_commit(context, outcome))
    assert database.admin("SELECT count(*), count(DISTINCT id) FROM target") == [(100, 100)]
    assert outcome == sink.digest(context, spark.range(100))


def test_tasks_without_rows_and_many_tasks_are_fine(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    sink = opened(table="target")
    put(sink, spark.range(0, 5, 1, 20), 0, long=True)
    put(sink, spark.range(0), 1, long=True)
    put(sink, spark.range(0), 2)
    assert database.column("SELECT id FROM target ORDER BY id") == list(range(5))
    assert database.staged() == []
    last = sink.last_commit()
    assert last is not None
    assert last.epoch == 2


@pytest.mark.parametrize("guarantee", [Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE])
def test_an_epoch_that_turns_out_to_be_large_goes_over_tasks(
    spark: SparkSession, database: Database, opened: Opens, guarantee: Guarantee
) -> None:
    """A watermark that closes many windows in an epoch without input: too many for the driver, and each row once."""
    sink = opened(table="target", guarantee=guarantee, small_epoch_bytes=1_000_000)
    context = EpochContext(epoch=0, input_rows=0)
    sink.begin(context)
    outcome = sink.write(context, spark.range(0, 50_000, 1, 2))
    committable = sink.pre_commit(context, outcome)
    assert committable.get("direct") or len(committable["tries"]) == 2, "written by the driver"
    sink.commit(context, committable)
    assert outcome.rows == 50_000
    assert database.admin("SELECT count(*), count(DISTINCT id) FROM target") == [(50_000, 50_000)]


def test_what_is_shipped_to_tasks_prints_no_secret(database: Database) -> None:
    sink = PostgresSink(database.dsn(user="locked", password=PASSWORD), table="target")
    options = sink._session.options
    assert PASSWORD not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_rows_larger_than_a_chunk_arrive(
    spark: SparkSession, database: Database, opened: Opens, put: Puts, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onceward.sinks.postgres import binary

    monkeypatch.setattr(binary, "CHUNK_BYTES", 1000)
    database.admin("ALTER TABLE target ADD COLUMN text text")
    put(opened(table="target"), spark.range(50).selectExpr("id", "repeat('x', 1000) as text"))
    assert database.admin("SELECT count(*), count(DISTINCT id), min(length(text)) FROM target") == [(50, 50, 1000)]


@pytest.mark.parametrize("long", [False, True], ids=["short way", "long way"])
def test_at_least_once_writes_a_redone_epoch_again(
    long: bool, spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    """Requirement A5: that is what at-least-once means."""
    sink = opened(table="target", guarantee=Guarantee.AT_LEAST_ONCE)
    put(sink, spark.range(10), long=long)
    put(sink, spark.range(10), long=long)
    assert database.column("SELECT count(*) FROM target") == [20]
    assert database.column("SELECT to_regnamespace('onceward') IS NULL") == [True], "no schema of ours is needed"


@pytest.mark.parametrize("long", [False, True], ids=["short way", "long way"])
def test_at_least_once_upserts_without_a_trace(
    long: bool, spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    """An idempotent sink makes the effect once, even so."""
    database.admin("ALTER TABLE target ADD PRIMARY KEY (id), ADD COLUMN text text")
    sink = opened(table="target", guarantee=Guarantee.AT_LEAST_ONCE, mode="upsert", key=("id",))
    for text in ("a", "b"):
        put(sink, spark.range(10).selectExpr("id", f"'{text}' as text"), long=long)
    assert database.admin("SELECT count(*), min(text) FROM target") == [(10, "b")]


def test_at_most_once_does_not_run_a_task_again(
    spark: SparkSession, database: Database, opened: Opens, put: Puts, dying_worker: Path
) -> None:
    """Requirement A5: better lost than doubled."""
    sink = opened(table="target", guarantee=Guarantee.AT_MOST_ONCE)
    with pytest.raises(EpochFailed, match="not run again"):
        put(sink, spark.range(0, 10, 1, 1), long=True)
    assert database.column("SELECT id FROM target ORDER BY id") == list(range(10))


def test_batches_of_arrow_may_be_slices(database: Database) -> None:
    """An Arrow array may begin in the middle of its buffers."""
    from onceward.sinks.postgres.binary import SIGNATURE, TRAILER, Coding, Form, encode

    columns = {
        "id": pa.array([1, 2, None, 4], pa.int64()),
        "text": pa.array(["a", None, "", "ü"]),
        "many": pa.array([[1], [], None, [2, None]], pa.list_(pa.int32())),
        "money": pa.array([1, None, 3, -4], pa.int64()).cast(pa.decimal128(21, 2)),
        "flag": pa.array([True, None, False, True]),
    }
    codings = [
        Coding("id", Form.INT8),
        Coding("text", Form.TEXT),
        Coding("many", Form.INT4, 23),
        Coding("money", Form.NUMERIC),
        Coding("flag", Form.BOOL),
    ]
    batch = pa.RecordBatch.from_pydict(columns)
    database.admin("CREATE TABLE sliced (id bigint, text text, many int[], money numeric, flag boolean)")
    with database.connect() as connection, connection.cursor().copy("COPY sliced FROM STDIN (FORMAT binary)") as copy:
        copy.write(SIGNATURE)
        for start in range(4):
            for data in encode(batch.slice(start, 1), codings):
                copy.write(data)
        copy.write(TRAILER)
    expected = [tuple(row.values()) for row in batch.to_pylist()]
    assert sorted(database.admin("SELECT * FROM sliced"), key=str) == sorted(expected, key=str)
