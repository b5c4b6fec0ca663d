"""A server that forgets: what `last_commit` says of it while the driver lives, and commits that are refused."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from onceward.errors import MarkerMissing, SinkUnreachable
from onceward.sinks.postgres import PostgresSink
from support.postgres import Database, away

Opens = Callable[..., PostgresSink]
Puts = Callable[..., Any]


@pytest.fixture(autouse=True)
def target(database: Database) -> None:
    database.admin("CREATE TABLE target (id bigint NOT NULL)")


def seen(database: Database) -> list[int]:
    return database.column("SELECT id FROM target ORDER BY id")


def epoch_of(sink: PostgresSink) -> int | None:
    last = sink.last_commit()
    return None if last is None else last.epoch


@pytest.fixture
def rows(spark: SparkSession) -> Callable[[int], DataFrame]:
    return lambda epoch: spark.range(10 * epoch, 10 * epoch + 10)


@pytest.mark.parametrize(
    ("forgets", "told"),
    [
        ("UPDATE onceward.markers SET epoch = 1", 1),
        ("UPDATE onceward.markers SET lineage = null, epoch = null, term = null", None),
        ("DELETE FROM onceward.markers", None),
        ("DROP TABLE onceward.markers", None),
        ("DROP SCHEMA onceward CASCADE", None),
    ],
)
def test_the_last_commit_is_what_the_server_says_now(
    database: Database, opened: Opens, put: Puts, rows: Any, forgets: str, told: int | None
) -> None:
    """It is compared at every epoch, not only at a start, so it has to be the truth while the driver lives."""
    sink = opened(table="target")
    for epoch in range(3):
        put(sink, rows(epoch), epoch)
        assert [epoch_of(sink), epoch_of(sink)] == [epoch, epoch]
    database.admin(forgets)
    assert [epoch_of(sink), epoch_of(sink)] == [told, told]


def test_the_last_commit_is_told_after_the_connection_broke(
    database: Database, opened: Opens, put: Puts, rows: Any
) -> None:
    """A new connection is made, and an error that may pass says so."""
    sink = opened(table="target")
    put(sink, rows(0), 0)
    database.admin("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^onceward '")
    assert epoch_of(sink) == 0
    with away(database.server), pytest.raises(SinkUnreachable):
        sink.last_commit()
    assert epoch_of(sink) == 0


@pytest.mark.parametrize("count", [10, 0], ids=["with rows", "without rows"])
@pytest.mark.parametrize(
    "forgets",
    [
        "UPDATE onceward.markers SET epoch = 0",
        "UPDATE onceward.markers SET lineage = null, epoch = null, term = null",
        "UPDATE onceward.markers SET lineage = 'another'",
        "DELETE FROM onceward.markers",
    ],
)
def test_a_commit_on_a_marker_that_moved_since_the_epoch_began_is_refused(
    spark: SparkSession,
    database: Database,
    opened: Opens,
    prepare: Puts,
    put: Puts,
    rows: Any,
    forgets: str,
    count: int,
) -> None:
    """Requirement B5: decided, it is committed on top of what it follows, or it stops with a name."""
    sink = opened(table="target")
    put(sink, rows(0), 0)
    put(sink, rows(1), 1)
    context, committable = prepare(sink, spark.range(20, 20 + count), 2)
    before = database.admin("SELECT * FROM onceward.markers")
    database.admin(forgets)
    forgot = database.admin("SELECT * FROM onceward.markers")
    for _ in range(2):
        with pytest.raises(MarkerMissing, match=r"follows epoch 1 of lineage lineage-1.*set back") as raised:
            sink.commit(context, committable)
    assert seen(database) == list(range(20))
    assert database.admin("SELECT * FROM onceward.markers") == forgot != before
    assert len(database.staged()) == bool(count)
    # A person has looked, and says so with the statement that the message holds.
    database.admin(str(raised.value).partition("start again: ")[2])
    for _ in range(2):
        sink.commit(context, committable)
    assert seen(database) == list(range(20 + count))
    assert epoch_of(sink) == 2
    assert database.staged() == []


def test_a_committable_that_names_no_predecessor_is_committed(
    database: Database, opened: Opens, prepare: Puts, put: Puts, rows: Any
) -> None:
    """An epoch that was staged by the release before, or one that a person wants to go on."""
    sink = opened(table="target")
    put(sink, rows(0), 0)
    context, committable = prepare(sink, rows(1), 1)
    database.admin("DELETE FROM onceward.markers")
    sink.commit(context, {name: value for name, value in committable.items() if name != "after"})
    assert seen(database) == list(range(20))
