"""A start that is refused disturbs nobody: it looks at the marker before it takes the sink over."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onceward.errors import HomeMismatch, PipelineFenced
from onceward.servers.postgres import PostgresServer
from onceward.sinks.postgres import PostgresSink
from support.postgres import Database
from support.waiting import eventually

Opens = Callable[..., PostgresSink]
Puts = Callable[..., Any]


@pytest.fixture(autouse=True)
def target(database: Database) -> None:
    database.admin("CREATE TABLE target (id bigint NOT NULL)")


def seen(database: Database) -> list[int]:
    return database.column("SELECT id FROM target ORDER BY id")


def connections(database: Database) -> set[tuple[Any, ...]]:
    """Ours: server process and name."""
    return set(
        database.admin(
            "SELECT pid, application_name FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name ~ '^onceward '"
        )
    )


@pytest.mark.parametrize(
    ("wrong", "refused"),
    [
        ({"lineage": "another-home", "term": 1}, HomeMismatch),
        ({"lineage": "another-home", "term": 900}, HomeMismatch),
        ({"term": 4}, HomeMismatch),
    ],
)
def test_a_start_that_is_refused_disturbs_nobody(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, put: Puts, wrong: Any, refused: Any
) -> None:
    """Requirement E8: a wrong or copied home is told by the marker, and the healthy pipeline goes on."""
    healthy = opened(table="target", term=5)
    put(healthy, spark.range(10), 0)
    context, committable = prepare(healthy, spark.range(10, 20), 1)
    before = connections(database), database.admin("SELECT * FROM onceward.markers"), database.staged()
    with pytest.raises(refused, match=r"(under lineage lineage-1, but this home has lineage|the home is an old copy)"):
        opened(table="target", **wrong)
    assert connections(database) >= before[0], "the healthy pipeline's connection was ended"
    eventually(lambda: connections(database) == before[0], "the server has seen that the refused one has left")
    assert (database.admin("SELECT * FROM onceward.markers"), database.staged()) == before[1:]
    healthy.commit(context, committable)
    put(healthy, spark.range(20, 30), 2)
    assert seen(database) == list(range(30))
    assert connections(database) == before[0], "the healthy pipeline had to connect again"


def test_an_older_term_is_refused_before_it_ends_any_connection(database: Database, opened: Opens) -> None:
    opened(table="target", term=3)
    paused = connections(database)
    opened(table="target", term=5)
    assert not connections(database) & paused
    holding = connections(database)
    with pytest.raises(PipelineFenced):
        opened(table="target", term=4)
    assert connections(database) >= holding
    eventually(lambda: connections(database) == holding, "the server has seen that the refused one has left")


def test_a_take_over_leaves_other_databases_of_the_server_alone(
    spark: SparkSession, postgres: PostgresServer, database: Database, opened: Opens, put: Puts
) -> None:
    """Pipelines of one name, each in a database of its own: staging and production on one server."""
    other = Database.new(postgres)
    try:
        other.admin("CREATE TABLE target (id bigint NOT NULL)")
        neighbour = opened(table="target", dsn=other.dsn())
        put(neighbour, spark.range(10), 0)
        before = connections(other)
        assert len(before) == 1
        opened(table="target", term=7)
        put(opened(table="target", term=8), spark.range(5), 0)
        assert connections(other) == before
        put(neighbour, spark.range(10, 20), 1)
        assert (seen(other), seen(database)) == (list(range(20)), list(range(5)))
    finally:
        other.drop()
