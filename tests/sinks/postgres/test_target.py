"""The target: names, tables the sink makes, upserts, constraints, rights."""

from collections.abc import Callable
from typing import Any

import pytest
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession

from onceward.errors import ConfigurationError, InvalidRows, TargetUnusable
from onceward.sinks.postgres import PostgresSink
from support.postgres import Database

Opens = Callable[..., PostgresSink]
Puts = Callable[..., Any]

HOSTILE = [
    'x"; drop table victim; --',
    "sp ace",
    "Größe 🦆",
    "'quoted'",
    "%s",
    "{}",
    "Select",
    "a`b",
    "c.d",
    "\\",
    "{0}",
]


def rows(spark: SparkSession, *values: str) -> DataFrame:
    """From SQL: `rows(spark, "1, 'a'")` has the columns id and text."""
    return spark.sql(f"SELECT * FROM VALUES {', '.join(f'({value})' for value in values)} AS t(id, text)")


@pytest.mark.parametrize("long", [False, True], ids=["short way", "long way"])
def test_hostile_names_are_names(long: bool, spark: SparkSession, database: Database, opened: Opens, put: Puts) -> None:
    database.admin("CREATE TABLE victim (id int)")
    schema, table = 'sch.ema"; drop table victim; --', 'ta.ble"; drop table victim; --'
    database.admin(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)).as_string())
    frame = spark.range(2).toDF(HOSTILE[0])
    for name in HOSTILE[1:]:
        frame = frame.selectExpr("*", f"1 as `{name.replace('`', '``')}`")
    quoted = ".".join(part.as_string() for part in (sql.Identifier(schema), sql.Identifier(table)))
    sink = opened(
        table=quoted,
        create=True,
        mode="upsert",
        key=HOSTILE[:2],
        schema='onceward"; drop table victim; --',
        pipeline="p\"'",
    )
    put(sink, frame, 0, long=long)
    put(sink, frame, 1, long=long)
    assert database.admin(f"SELECT count(*), sum({sql.Identifier(HOSTILE[0]).as_string()}) FROM {quoted}") == [(2, 1)]
    assert database.column("SELECT count(*) FROM victim") == [0]


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", "a.b.c", '"a', '"a"b', "a\0b", "x" * 64])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        PostgresSink("dbname=x", table=text)


@pytest.mark.parametrize(("mode", "key"), [("upsert", ()), ("append", ("id",)), ("upsert", "id"), ("merge", ("id",))])
def test_a_mode_and_its_key_belong_together(mode: Any, key: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"mode.*(upsert|merge)"):
        PostgresSink("dbname=x", table="t", mode=mode, key=key)


def test_an_upsert_writes_over_rows_of_the_same_key(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    sink = opened(table="made", mode="upsert", key=("id",), create=True)
    put(sink, rows(spark, "1, 'a'", "2, 'b'"), 0)
    put(sink, rows(spark, "2, 'B'", "3, 'C'"), 1)
    assert database.admin("SELECT id, text FROM made ORDER BY id") == [(1, "a"), (2, "B"), (3, "C")]


def test_an_upsert_of_keys_alone_leaves_what_is_there(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    sink = opened(table="made", mode="upsert", key=("id", "text"), create=True)
    put(sink, rows(spark, "1, 'a'"), 0)
    put(sink, rows(spark, "1, 'a'", "2, 'b'"), 1)
    assert database.admin("SELECT id, text FROM made ORDER BY id") == [(1, "a"), (2, "b")]


@pytest.mark.parametrize("long", [False, True], ids=["short way", "long way"])
def test_a_key_that_comes_twice_in_an_epoch_is_found_before_the_decision(
    long: bool, spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    sink = opened(table="made", mode="upsert", key=("id",), create=True)
    with pytest.raises(InvalidRows, match=r"the key \(id\) = \(7\) comes twice in one epoch"):
        prepare(sink, rows(spark, "7, 'a'", "8, 'b'", "7, 'c'"), long=long)
    assert database.column("SELECT count(*) FROM made") == [0]


def test_a_key_without_a_value_is_refused(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    """Where a unique index admits nulls, every null would be another row."""
    database.admin("CREATE TABLE target (id bigint UNIQUE, text text)")
    sink = opened(table="target", mode="upsert", key=("id",))
    with pytest.raises(InvalidRows, match='column "id"'):
        prepare(sink, rows(spark, "null, 'a'"))


def test_an_upsert_needs_a_unique_index_on_its_key(database: Database, opened: Opens) -> None:
    database.admin("CREATE TABLE target (id bigint, day date, text text, PRIMARY KEY (id, day))")
    with pytest.raises(TargetUnusable, match=r'ADD PRIMARY KEY \("id"\)'):
        opened(table="target", mode="upsert", key=("id",))
    database.admin("CREATE UNIQUE INDEX ON target (id) WHERE day IS NULL")
    with pytest.raises(TargetUnusable, match="unique index"):
        opened(table="target", mode="upsert", key=("id",))
    opened(table="target", mode="upsert", key=("day", "id"))


def test_columns_that_the_rows_lack_take_their_defaults(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    database.admin(
        "CREATE TABLE target (n bigint GENERATED ALWAYS AS IDENTITY, id bigint, at timestamptz NOT NULL DEFAULT now(), "
        "twice bigint GENERATED ALWAYS AS (id * 2) STORED, text text, CHECK (at IS NOT NULL AND id > 0))"
    )
    put(opened(table="target"), rows(spark, "1, 'a'", "2, 'b'"))
    assert database.admin("SELECT n, id, twice, text FROM target ORDER BY id") == [(1, 1, 2, "a"), (2, 2, 4, "b")]


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("id bigint", "no column 'text'"),
        ("id bigint, text text, more text NOT NULL", "wants column 'more'"),
        ("id bigint GENERATED ALWAYS AS IDENTITY, text text", "computes its column 'id' itself"),
        ('ID bigint, "Text" text', "no column 'text'"),
    ],
)
def test_columns_that_do_not_fit_are_named(
    columns: str, said: str, spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    database.admin(f"CREATE TABLE target ({columns})")
    sink = opened(table="target")
    with pytest.raises(InvalidRows, match=said):
        prepare(sink, rows(spark, "1, 'a'"))
    assert database.staged() == []


@pytest.mark.parametrize("name", ["__onceward_hash", "__onceward_try"])
def test_our_own_columns_are_refused_by_name(
    name: str, spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    database.admin(f"CREATE TABLE target ({name} bigint)")
    with pytest.raises(InvalidRows, match=name):
        prepare(opened(table="target"), spark.range(1).toDF(name))


@pytest.mark.parametrize("long", [False, True], ids=["short way", "long way"])
def test_a_row_that_is_there_already_is_found_before_the_decision(
    long: bool, spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    database.admin("CREATE TABLE target (id bigint PRIMARY KEY, text text); INSERT INTO target VALUES (2, 'x')")
    sink = opened(table="target")
    with pytest.raises(InvalidRows, match=r"\(id\) = \(2\) is in the table already.*target_pkey.*upsert"):
        prepare(sink, rows(spark, "1, 'a'", "2, 'b'"), long=long)


def test_a_second_unique_index_is_looked_at_in_an_upsert_too(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, put: Puts
) -> None:
    database.admin("CREATE TABLE target (id bigint PRIMARY KEY, text text CONSTRAINT once UNIQUE)")
    sink = opened(table="target", mode="upsert", key=("id",))
    put(sink, rows(spark, "1, 'a'", "2, 'b'", "3, null", "4, null"), 0)
    put(sink, rows(spark, "1, 'c'", "2, 'd'"), 1)
    with pytest.raises(InvalidRows, match=r"\(text\) = \(d\) is in the table already, and 'once'"):
        prepare(sink, rows(spark, "1, 'd'"), 2)
    with pytest.raises(InvalidRows, match=r"\(text\) = \(e\) comes twice.*'once'"):
        prepare(sink, rows(spark, "1, 'e'", "2, 'e'"), 2, attempt=2)


def test_a_missing_reference_is_found_before_the_decision(
    spark: SparkSession, database: Database, opened: Opens, prepare: Puts, put: Puts
) -> None:
    database.admin(
        "CREATE TABLE shop (name text PRIMARY KEY); INSERT INTO shop VALUES ('a');"
        "CREATE TABLE target (id bigint, text text REFERENCES shop)"
    )
    sink = opened(table="target")
    put(sink, rows(spark, "1, 'a'", "2, null"), 0)
    with pytest.raises(InvalidRows, match=r"\(text\) = \(b\) is not in .*shop.*target_text_fkey"):
        prepare(sink, rows(spark, "3, 'a'", "4, 'b'"), 1)


def test_a_target_that_changes_is_looked_at_again(
    spark: SparkSession, database: Database, opened: Opens, put: Puts, prepare: Puts
) -> None:
    """What was known of it a moment ago is checked by the server before the vote."""
    database.admin("CREATE TABLE target (id bigint, text text)")
    sink = opened(table="target")
    put(sink, rows(spark, "1, 'a'"), 0)
    database.admin("ALTER TABLE target RENAME COLUMN text TO words")
    with pytest.raises(TargetUnusable, match="text"):
        prepare(sink, rows(spark, "2, 'b'"), 1)
    with pytest.raises(InvalidRows, match="no column 'text'"):
        prepare(sink, rows(spark, "2, 'b'"), 1, attempt=2)


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("SELECT 1", r'no table "target".*create=True'),
        ("CREATE VIEW target AS SELECT 1 AS id", "is no table"),
        ("CREATE UNLOGGED TABLE target (id int)", "SET LOGGED"),
    ],
)
def test_a_target_that_cannot_be_written_is_refused_at_the_start(
    statement: str, said: str, database: Database, opened: Opens
) -> None:
    database.admin(statement)
    with pytest.raises(TargetUnusable, match=said):
        opened(table="target")


def test_a_partitioned_target_takes_rows(spark: SparkSession, database: Database, opened: Opens, put: Puts) -> None:
    database.admin(
        "CREATE TABLE target (id bigint, text text, PRIMARY KEY (id)) PARTITION BY RANGE (id);"
        "CREATE TABLE low PARTITION OF target FOR VALUES FROM (0) TO (10);"
        "CREATE TABLE high PARTITION OF target FOR VALUES FROM (10) TO (20)"
    )
    put(opened(table="target", mode="upsert", key=("id",)), rows(spark, "1, 'a'", "11, 'b'"))
    assert database.admin("SELECT (SELECT count(*) FROM low), (SELECT count(*) FROM high)") == [(1, 1)]


def test_an_ordinary_role_needs_little(spark: SparkSession, database: Database, opened: Opens, put: Puts) -> None:
    role = f"role_{database.name}"
    database.admin(
        f"CREATE ROLE {role} LOGIN; CREATE TABLE target (id bigint PRIMARY KEY, text text); REVOKE ALL ON SCHEMA "
        f"public FROM PUBLIC; GRANT USAGE ON SCHEMA public TO {role}"
    )
    dsn = database.dsn(user=role)
    with pytest.raises(TargetUnusable, match=f"'{role}' may not INSERT.*GRANT INSERT ON"):
        opened(table="target", dsn=dsn)
    database.admin(f"GRANT INSERT ON target TO {role}")
    with pytest.raises(TargetUnusable, match=f'CREATE SCHEMA "onceward" AUTHORIZATION "{role}"'):
        opened(table="target", dsn=dsn)
    with pytest.raises(TargetUnusable, match="may not SELECT"):
        opened(table="target", dsn=dsn, mode="upsert", key=("id",))
    database.admin("CREATE SCHEMA onceward")
    with pytest.raises(TargetUnusable, match="GRANT USAGE, CREATE ON SCHEMA"):
        opened(table="target", dsn=dsn)
    database.admin(f"CREATE SCHEMA mine AUTHORIZATION {role}")
    sink = opened(table="target", dsn=dsn, schema="mine")
    put(sink, rows(spark, "1, 'a'"), 0)
    put(sink, rows(spark, "2, 'b'"), 1, long=True)
    assert database.column("SELECT id FROM target ORDER BY id") == [1, 2]
    sink.close()
    database.admin(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
