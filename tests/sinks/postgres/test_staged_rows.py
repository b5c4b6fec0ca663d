"""Staged rows that nobody has reported: they are never published, and whoever counts too many says so."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onceward.epoch.contract import EpochContext
from onceward.errors import EpochFailed, StagingLost
from onceward.sinks.postgres import PostgresSink
from onceward.sinks.postgres.staging import TRY
from support.postgres import Database

Opens = Callable[..., PostgresSink]
Puts = Callable[..., Any]
KINDS: dict[str, dict[str, Any]] = {"append": {}, "upsert": {"mode": "upsert", "key": ("id",)}}


@pytest.fixture(params=list(KINDS))
def sink(request: pytest.FixtureRequest, database: Database, opened: Opens) -> PostgresSink:
    database.admin("CREATE TABLE target (id bigint PRIMARY KEY)")
    return opened(table="target", **KINDS[request.param])


def seen(database: Database) -> list[int]:
    return database.column("SELECT id FROM target ORDER BY id")


def tries(database: Database) -> list[int]:
    (table,) = database.staged()
    return database.column(f'SELECT DISTINCT "{TRY}" FROM onceward."{table}"')


def add(database: Database, *ids: int, tried: int | None = None) -> None:
    """Rows that nobody reports: of that run of a task, or without one where the driver has collected."""
    (table,) = database.staged()
    for id_ in ids:
        values = str(id_) if tried is None else f"{id_}, {tried}"
        database.admin(f'INSERT INTO onceward."{table}" VALUES ({values})')


@pytest.mark.parametrize("when", ["before the vote", "after the vote"])
def test_rows_of_a_tasks_other_run_are_not_published(
    spark: SparkSession, database: Database, sink: PostgresSink, when: str
) -> None:
    """Trap 1's kin: a task wrote, its answer was lost, and Spark ran it again; or it wakes late."""
    context = EpochContext(epoch=0)
    sink.begin(context)
    outcome = sink.write(context, spark.range(10))
    if when == "before the vote":
        add(database, *range(10, 15), tried=1)
    committable = sink.pre_commit(context, outcome)
    if when == "after the vote":
        add(database, *range(10, 15), tried=1)
    for _ in range(2):
        sink.commit(context, committable)
        assert seen(database) == list(range(10))
    assert database.staged() == []


@pytest.mark.parametrize("way", ["short", "long"])
def test_a_row_too_many_before_the_vote_is_a_no(
    spark: SparkSession, database: Database, sink: PostgresSink, way: str
) -> None:
    """Whoever wrote it under the name of a reported run: what is staged is not what was counted."""
    context = EpochContext(epoch=0, input_rows=None if way == "long" else 1)
    sink.begin(context)
    outcome = sink.write(context, spark.range(10))
    add(database, 10, tried=tries(database)[0] if way == "long" else None)
    with pytest.raises(EpochFailed, match="has 11 rows, and 10 were copied: nothing is committed"):
        sink.pre_commit(context, outcome)
    sink.abort(context)
    assert (seen(database), database.staged()) == ([], [])


@pytest.mark.parametrize("way", ["short", "long"])
def test_a_row_too_many_after_the_vote_stops_the_commit_and_nothing_is_published(
    spark: SparkSession, database: Database, sink: PostgresSink, prepare: Puts, way: str
) -> None:
    """B5: it is decided, and neither more nor less than what was voted for may become visible."""
    context, committable = prepare(sink, spark.range(10), long=way == "long")
    add(database, 10, tried=tries(database)[0] if way == "long" else None)
    for _ in range(2):
        with pytest.raises(StagingLost, match="has 11 of the 10 rows that were staged: somebody changed it"):
            sink.commit(context, committable)
        assert seen(database) == []
    (table,) = database.staged()
    database.admin(f'DELETE FROM onceward."{table}" WHERE id = 10')
    sink.commit(context, committable)
    assert (seen(database), database.staged()) == (list(range(10)), [])


def test_rows_that_a_run_reported_twice_count_once(
    spark: SparkSession, database: Database, sink: PostgresSink, prepare: Puts
) -> None:
    """A committable may name a run twice, and must not double its rows."""
    context, committable = prepare(sink, spark.range(10), long=True)
    sink.commit(context, {**committable, "tries": [*committable["tries"], *committable["tries"]]})
    assert seen(database) == list(range(10))
