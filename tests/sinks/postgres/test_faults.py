"""Connections cut, server processes ended, servers restarted, answers lost: still exactly once, or a named error."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.contract import EpochContext
from onceward.errors import ConfigurationError, OncewardError, SinkUnreachable, TargetUnusable
from onceward.proof.chaos.proxy import Proxy
from onceward.sinks.postgres import PostgresSink, session
from support.postgres import PASSWORD, Database, away
from support.waiting import eventually

Opens = Callable[..., PostgresSink]
Puts = Callable[..., Any]
COMMIT = b"COMMIT\0"  # as it travels


@pytest.fixture(autouse=True)
def target(database: Database) -> None:
    database.admin("CREATE TABLE target (id bigint NOT NULL)")


@pytest.fixture
def proxy(database: Database) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", database.server.port) as proxy:
        yield proxy


@pytest.fixture
def ending(database: Database) -> Callable[[str], threading.Thread]:
    """Ends the server process that runs such a statement, once, as soon as there is one."""

    def start(statement: str) -> threading.Thread:
        def watch() -> None:
            query = (
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '{statement}%' "
                "AND state = 'active' AND application_name LIKE 'onceward%' LIMIT 1"
            )
            with database.connect() as connection:
                eventually(lambda: connection.execute(query).fetchall(), f"somebody runs {statement}")  # type: ignore[call-overload]

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        return thread

    return start


def seen(database: Database) -> list[int]:
    return database.column("SELECT id FROM target ORDER BY id")


def ids(spark: SparkSession, *bounds: int) -> DataFrame:
    return spark.range(*bounds)


@pytest.mark.parametrize("long", [False, True], ids=["short way", "long way"])
def test_a_copy_whose_server_process_ends_is_redone(
    long: bool, spark: SparkSession, database: Database, opened: Opens, prepare: Puts, put: Puts, ending: Any
) -> None:
    """Requirement B4."""
    database.admin(
        "CREATE FUNCTION slowly(bigint) RETURNS boolean LANGUAGE sql VOLATILE AS 'SELECT pg_sleep(0.2) IS NOT NULL';"
        "ALTER TABLE target ADD CONSTRAINT slow CHECK (slowly(id))"
    )
    sink, watcher = opened(table="target"), ending("COPY")
    with pytest.raises(SinkUnreachable, match="57P01"):
        prepare(sink, ids(spark, 0, 60, 1, 1), long=long)
    watcher.join()
    sink.abort(EpochContext(epoch=0))
    assert database.staged() == []
    database.admin("ALTER TABLE target DROP CONSTRAINT slow")
    put(sink, ids(spark, 10), attempt=2)
    assert seen(database) == list(range(10))


def test_a_commit_whose_server_process_ends_is_asked_again(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, ending: Any
) -> None:
    """Requirement B5."""
    sink = opened(table="target")
    context, committable = prepare(sink, ids(spark, 10))
    database.admin(
        "CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.1); RETURN NEW; END';"
        "CREATE TRIGGER slow BEFORE INSERT ON target FOR EACH ROW EXECUTE FUNCTION slowly()"
    )
    watcher = ending("INSERT INTO")
    sink.commit(context, committable)
    watcher.join()
    assert seen(database) == list(range(10))
    assert database.staged() == []


@pytest.mark.parametrize("same", [True, False], ids=["same process", "next process"])
def test_staged_rows_outlive_the_server(
    same: bool, spark: SparkSession, database: Database, opened: Opens, prepare: Puts, put: Puts
) -> None:
    """Requirement B2: what was voted for is durable. The server is stopped as in a crash."""
    sink = opened(table="target")
    put(sink, ids(spark, 10), 0)
    context, committable = prepare(sink, ids(spark, 10, 20), 1, long=True)
    with away(database.server), pytest.raises(SinkUnreachable, match="cannot be reached"):
        sink.commit(context, committable)
    committing = sink if same else opened(table="target", term=2)
    committing.commit(context, committable)
    assert seen(database) == list(range(20))
    put(committing, ids(spark, 20, 30), 2)
    assert seen(database) == list(range(30))


def test_a_connection_that_broke_between_epochs_is_made_again(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    sink = opened(table="target")
    put(sink, ids(spark, 10), 0)
    with away(database.server):
        pass
    put(sink, ids(spark, 10, 20), 1)
    assert seen(database) == list(range(20))


@pytest.mark.parametrize("reachable", [True, False], ids=["server stays", "server out of reach"])
@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_commit_whose_answer_is_lost_moves_the_rows_once(
    lost: str, reachable: bool, spark: SparkSession, database: Database, opened: Opens, prepare: Puts, proxy: Proxy
) -> None:
    """Requirement B5: whether COMMIT arrived or not is never guessed; the marker tells."""
    sink = opened(table="target", dsn=database.dsn(port=proxy.port))
    context, committable = prepare(sink, ids(spark, 10))
    trap = proxy.lose_request(COMMIT) if lost == "request" else proxy.lose_answer(COMMIT)
    proxy.refusing = not reachable
    if reachable:
        sink.commit(context, committable)
    else:
        with pytest.raises(SinkUnreachable, match="cannot be reached"):
            sink.commit(context, committable)
        assert len(seen(database)) in (0, 10)
        proxy.refusing = False
        sink.commit(context, committable)
    assert trap.sprung.is_set()
    assert seen(database) == list(range(10))
    assert database.staged() == []
    sink.commit(context, committable)
    assert seen(database) == list(range(10))


def test_a_commit_that_was_cut_off_without_the_servers_notice_does_not_block_itself(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, proxy: Proxy
) -> None:
    """The server's process waits for COMMIT, with the marker's row locked and the rows moved: it is ended first."""
    sink = opened(table="target", dsn=database.dsn(port=proxy.port))
    context, committable = prepare(sink, ids(spark, 10))
    trap = proxy.lose_request(COMMIT, unnoticed=True)
    began = time.monotonic()
    sink.commit(context, committable)
    assert trap.sprung.is_set()
    assert time.monotonic() - began < 20, "it waited for its own lock"
    assert seen(database) == list(range(10))


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_staging_whose_answer_is_lost_is_redone(
    lost: str, spark: SparkSession, database: Database, opened: Opens, put: Puts, proxy: Proxy
) -> None:
    """Requirement B4: the table of the lost try may be there or not, and is gone after the abort."""
    sink, context = opened(table="target", dsn=database.dsn(port=proxy.port)), EpochContext(epoch=0, input_rows=1)
    sink.begin(context)
    rows = ids(spark, 10)
    sink.digest(context, rows)  # looks at the target, so that the next COMMIT is the one of the COPY
    trap = proxy.lose_request(COMMIT) if lost == "request" else proxy.lose_answer(COMMIT)
    with pytest.raises(SinkUnreachable):
        sink.write(context, rows)
    assert trap.sprung.is_set()
    sink.abort(context)
    assert database.staged() == []
    put(sink, rows, attempt=2)
    assert seen(database) == list(range(10))


def test_a_task_that_loses_its_connection_fails_the_try(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, put: Puts, proxy: Proxy
) -> None:
    sink = opened(table="target", dsn=database.dsn(port=proxy.port))
    trap = proxy.lose_answer(b"PGCOPY")
    with pytest.raises(SinkUnreachable, match="copying rows of epoch 0"):
        prepare(sink, ids(spark, 0, 10, 1, 1), long=True)
    assert trap.sprung.is_set()
    sink.abort(EpochContext(epoch=0))
    put(sink, ids(spark, 10), attempt=2, long=True)
    assert seen(database) == list(range(10))


def test_somebody_who_still_writes_holds_up_neither_abort_nor_commit(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    """A task of a lost executor may be in the middle of its COPY for as long as its connection lives."""
    sink = opened(table="target")
    for ending in ("abort", "commit"):
        context, committable = prepare(sink, ids(spark, 0, 10), long=True)
        with closing(database.connect()) as straggler:
            straggler.execute("BEGIN")
            straggler.execute(f"INSERT INTO onceward.{database.staged()[0]} VALUES (99, 99)")  # type: ignore[call-overload]
            if ending == "abort":
                sink.abort(context)
            else:
                sink.commit(context, committable)
            assert database.staged() == []
    assert seen(database) == list(range(10))


def test_a_lock_that_somebody_holds_is_waited_for_and_then_reported(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(table="target")
    context, committable = prepare(sink, ids(spark, 10))
    monkeypatch.setattr(session, "BEGIN", session.BEGIN.replace("30s", "100ms"))
    with database.connect() as other:
        other.execute("BEGIN; LOCK TABLE target")
        with pytest.raises(SinkUnreachable, match=r"epoch 0 is decided.*lock timeout.*55P03"):
            sink.commit(context, committable)
    sink.commit(context, committable)
    assert seen(database) == list(range(10))


def test_a_driver_that_stands_still_inside_its_commit_does_not_hold_up_its_successor(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    """Requirement C6: it holds the lock on the marker's row, and loses its connection to the newer term."""
    zombie = opened(table="target")
    zombie._session.connection().execute("BEGIN; SELECT * FROM onceward.markers FOR UPDATE")
    put(opened(table="target", term=2), ids(spark, 10))
    assert seen(database) == list(range(10))


def test_a_server_that_is_not_there_is_named(opened: Opens, database: Database) -> None:
    with pytest.raises(SinkUnreachable, match=r"PostgreSQL at 127\.0\.0\.1:1, database .* cannot be reached"):
        opened(table="target", dsn=database.dsn(port=1))


def test_a_server_that_is_read_only_is_waited_for(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    """As a replica is, until it takes over."""
    sink = opened(table="target")
    context, committable = prepare(sink, ids(spark, 10))
    with away(database.server):
        database.server.start(replica=True)
        try:
            with pytest.raises(SinkUnreachable, match=r"epoch 0 is decided.*25006.*target_session_attrs=read-write"):
                sink.commit(context, committable)
            with pytest.raises(SinkUnreachable, match=r"opening.*target_session_attrs=read-write"):
                opened(table="target", term=2)
        finally:
            database.server.stop()
    sink.commit(context, committable)
    assert seen(database) == list(range(10))


@pytest.mark.parametrize("password", ["wrong-Pa55", None])
def test_a_wrong_password_is_named_and_not_shown(password: str | None, database: Database, opened: Opens) -> None:
    dsn = database.dsn(user="locked", **({} if password is None else {"password": password}))
    with pytest.raises(TargetUnusable, match="refuses the log-in") as refused:
        opened(table="target", dsn=dsn)
    assert "locked" in str(refused.value)
    assert "wrong-Pa55" not in f"{refused.value!r} {refused.value.__cause__!r} {refused.value.__context__!r}"


def test_a_password_from_the_environment_reaches_the_tasks(
    spark: SparkSession, database: Database, opened: Opens, put: Puts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks' machines have neither the driver's environment nor its files."""
    database.admin("GRANT INSERT ON target TO locked; CREATE SCHEMA ours AUTHORIZATION locked")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    monkeypatch.setenv("PGUSER", "locked")
    dsn = f"host=127.0.0.1,127.0.0.1 port=1,{database.server.port} dbname={database.name}"  # the first one is down
    sink = opened(table="target", dsn=dsn, schema="ours")
    monkeypatch.delenv("PGPASSWORD")
    put(sink, ids(spark, 10), long=True)
    assert seen(database) == list(range(10))
    sink.close()
    database.admin("DROP OWNED BY locked CASCADE")


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://someone:{PASSWORD}@127.0.0.1:1/db?sslpassword={PASSWORD}",
        f"host=127.0.0.1 port=1 user=someone dbname=db password='{PASSWORD}'",
    ],
)
def test_secrets_are_in_no_text(dsn: str, opened: Opens) -> None:
    sink = PostgresSink(dsn, table="t")
    shown = [repr(sink), str(sink), repr(sink.describe()), repr(sink._session.options), str(vars(sink._session))]
    with pytest.raises(SinkUnreachable) as refused:
        opened(table="t", dsn=dsn)
    shown += [repr(refused.value), repr(refused.value.__cause__), repr(refused.value.__context__)]
    assert [text for text in shown if PASSWORD in text] == []
    assert "someone" in repr(sink)
    assert PostgresSink(**sink.describe()).describe() == sink.describe()


@pytest.mark.parametrize(
    "dsn", [f"postgresql://someone:{PASSWORD}@x@127.0.0.1/db", f"host=a {PASSWORD}", f"nonsense={PASSWORD}"]
)
def test_a_mistake_in_the_dsn_shows_no_secret(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match="dsn") as refused:
        PostgresSink(dsn, table="t")
    error: BaseException | None = refused.value
    assert isinstance(error, OncewardError)
    while error is not None:  # nor what a traceback would show below it
        assert PASSWORD not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
