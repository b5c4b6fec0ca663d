"""Every type that the sink takes arrives as it was, by the driver and by tasks; what does not fit is refused."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onceward.errors import InvalidRows
from onceward.sinks.postgres import PostgresSink
from support.postgres import Database

Opens = Callable[..., PostgresSink]
Puts = Callable[..., Any]

# Spark's expression, the target's type, and what PostgreSQL then says of it as text.
VALUES = [
    ("true", "boolean", "true"),
    ("cast(-128 as tinyint)", "smallint", "-128"),
    ("cast(32767 as smallint)", "smallint", "32767"),
    ("cast(-7 as smallint)", "bigint", "-7"),
    ("-2147483648", "integer", "-2147483648"),
    ("9223372036854775807L", "bigint", "9223372036854775807"),
    ("-9223372036854775808L", "numeric", "-9223372036854775808"),
    ("12L", "integer", "12"),
    ("12", "numeric(6,2)", "12.00"),
    ("cast(1.5 as float)", "real", "1.5"),
    ("cast(0.1 as float)", "double precision", "0.10000000149011612"),
    ("0.1D", "double precision", "0.1"),
    ("double('NaN')", "double precision", "NaN"),
    ("double('-Infinity')", "double precision", "-Infinity"),
    ("float('Infinity')", "real", "Infinity"),
    ("-0.0D", "double precision", "-0"),
    ("4.9E-324D", "double precision", "5e-324"),
    ("1.7976931348623157E308D", "double precision", "1.7976931348623157e+308"),
    ("cast('-12.50' as decimal(10,2))", "numeric(10,2)", "-12.50"),
    ("cast('0.001' as decimal(4,3))", "numeric", "0.001"),
    ("cast('9' as decimal(1,0))", "numeric(20,4)", "9.0000"),
    ("cast(repeat('9',38) as decimal(38,0))", "numeric(38,0)", "9" * 38),
    ("cast(concat('-0.',repeat('9',38)) as decimal(38,38))", "numeric(38,38)", "-0." + "9" * 38),
    ("'ü – “x” 🦆 \\\\ \\t \\n'", "text", "ü – “x” 🦆 \\ \t \n"),
    ("''", "text", ""),
    ("'abc'", "varchar(3)", "abc"),
    ("'abc'", "char(5)", "abc"),  # as text, without the padding
    ("'green'", "colour", "green"),
    ("'12'", "positive_text", "12"),
    ("'{\"a\": [1, null]}'", "jsonb", '{"a": [1, null]}'),
    ("'{\"a\":   1}'", "json", '{"a":   1}'),
    ("'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("X'00ff10'", "bytea", "\\x00ff10"),
    ("X''", "bytea", "\\x"),
    ("date'2024-02-29'", "date", "2024-02-29"),
    ("date'0001-01-01'", "date", "0001-01-01"),
    ("date'9999-12-31'", "date", "9999-12-31"),
    ("date'-0044-03-15'", "date", "0045-03-15 BC"),
    ("timestamp'2024-02-29 12:34:56.123456Z'", "timestamptz", "2024-02-29 12:34:56.123456+00"),
    ("timestamp'0001-01-01 00:00:00Z'", "timestamptz", "0001-01-01 00:00:00+00"),
    ("timestamp_micros(9223372036854775807L)", "timestamptz", "294247-01-10 04:00:54.775807+00"),
    ("timestamp_ntz'1969-12-31 23:59:59.999999'", "timestamp", "1969-12-31 23:59:59.999999"),
    ("time'23:59:59.999999'", "time", "23:59:59.999999"),
    ("array(1, null, 3)", "integer[]", "{1,NULL,3}"),
    ("array(1, 2)", "bigint[]", "{1,2}"),
    ("cast(array() as array<string>)", "text[]", "{}"),
    ("array('a b', '', null, 'ü')", "text[]", '{"a b","",NULL,ü}'),
    ("array(cast('1.10' as decimal(5,2)))", "numeric(5,2)[]", "{1.10}"),
    ("array('red')", "colour[]", "{red}"),
    ("array('9')", "positive_text[]", "{9}"),
    ("array(date'2000-01-01', null)", "date[]", "{2000-01-01,NULL}"),
    ("array(X'ff')", "bytea[]", '{"\\\\xff"}'),
    ("array(array(1, 2), array())", "jsonb", "[[1, 2], []]"),
    ("array(1, 2)", "json", "[1,2]"),
    ("named_struct('a', 1, 'b', null, 'c', 'x')", "jsonb", '{"a": 1, "b": null, "c": "x"}'),
    ("map('k', array(1.5D))", "jsonb", '{"k": [1.5]}'),
    ("parse_json('{\"v\": [true, null]}')", "jsonb", '{"v": [true, null]}'),
    ("array(named_struct('a', 1))", "jsonb", '[{"a": 1}]'),
    ("null", "integer", None),
    ("null", "text[]", None),
]


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    """What is said of timestamps depends on the zone; Spark 4.2 still hides its TIME type."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    spark.conf.set("spark.sql.timeType.enabled", "true")
    yield
    spark.conf.set("spark.sql.session.timeZone", str(zone))
    spark.conf.unset("spark.sql.timeType.enabled")


TYPES = "CREATE TYPE colour AS ENUM ('red', 'green'); CREATE DOMAIN positive_text AS text CHECK (VALUE <> '-')"


@pytest.mark.parametrize("long", [False, True], ids=["short way", "long way"])
def test_every_type_arrives_as_it_was(
    long: bool, spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    database.admin(TYPES)
    columns = ", ".join(f"c{number} {kind}" for number, (_, kind, _) in enumerate(VALUES))
    database.admin(f"CREATE TABLE target (id bigint, {columns})")
    # Three rows: the values, nulls, the values again, so that nulls lie between others.
    expressions = [f"if(id = 1, null, {what}) as c{number}" for number, (what, _, _) in enumerate(VALUES)]
    rows = spark.range(0, 3, 1, 1).selectExpr("id", *expressions)
    put(opened(table="target"), rows, long=long)
    texts = ", ".join(f"c{number}::text" for number in range(len(VALUES)))
    database.admin(f"ALTER DATABASE {database.name} SET timezone = 'UTC'")
    first, nulls, third = database.admin(f"SELECT {texts} FROM target ORDER BY id")
    got = list(zip([what for what, _, _ in VALUES], first, strict=True))
    assert got == [(what, said) for what, _, said in VALUES]
    assert third == first
    assert set(nulls) == {None}


def test_a_table_made_by_the_sink_takes_the_same_rows_again(
    spark: SparkSession, database: Database, opened: Opens, put: Puts
) -> None:
    expressions = [f"{what} as c{number}" for number, (what, _, _) in enumerate(VALUES) if what != "null"]
    rows = spark.range(1).selectExpr(*expressions)
    sink = opened(table="made", create=True)
    put(sink, rows, 0)
    put(sink, rows, 1, long=True)
    assert database.column("SELECT count(*) FROM made") == [2]
    kinds = dict(database.admin("SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
                                "WHERE attrelid = 'made'::regclass AND attnum > 0"))  # fmt: skip
    place = {what: f"c{number}" for number, (what, _, _) in enumerate(VALUES)}
    assert kinds[place["cast('-12.50' as decimal(10,2))"]] == "numeric(10,2)"
    assert kinds[place["array(1, null, 3)"]] == "integer[]"
    assert kinds[place["array(array(1, 2), array())"]] == "jsonb"
    assert kinds[place["timestamp_ntz'1969-12-31 23:59:59.999999'"]] == "timestamp without time zone"


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("'1'", "integer"),
        ("1", "text"),
        ("1", "boolean"),
        ("1.5D", "real"),
        ("1.5D", "numeric"),
        ("cast('1.234' as decimal(10,3))", "numeric(10,2)"),
        ("array(cast('1.234' as decimal(10,3)))", "numeric(10,2)[]"),
        ("1", "numeric(5,-2)"),
        ("timestamp'2024-01-01 00:00:00Z'", "timestamp"),
        ("timestamp_ntz'2024-01-01 00:00:00'", "timestamptz"),
        ("date'2024-01-01'", "timestamptz"),
        ("array(array(1))", "integer[]"),
        ("array('a')", "integer[]"),
        ("named_struct('a', 1)", "text"),
        ("'10.0.0.1'", "inet"),
        ("interval '1' day", "interval"),
        ("X'00'", "text"),
    ],
)
def test_types_that_do_not_go_together_are_refused_by_name(
    what: str, kind: str, spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    database.admin(f"CREATE TABLE target (it {kind})")
    sink = opened(table="target")
    with pytest.raises(InvalidRows, match=r"column 'it' is .* in the rows and .* in .*target") as refused:
        prepare(sink, spark.range(1).selectExpr(f"{what} as it"))
    assert kind.replace("timestamptz", "timestamp with") in str(refused.value)
    assert database.staged() == []


@pytest.mark.parametrize("long", [False, True], ids=["short way", "long way"])
@pytest.mark.parametrize(
    ("what", "kind", "said"),
    [
        ("concat('a', char(0), 'b')", "text", "NUL"),
        ("array(char(0))", "text[]", "NUL"),
        ("'abcd'", "varchar(3)", "too long"),
        ("cast('123.4' as decimal(10,1))", "numeric(3,1)", "overflow"),
        ("40000", "smallint", "40000 is outside"),
        ("-2147483649L", "integer", "-2147483649 is outside"),
        ("'no uuid'", "uuid", "'no uuid' is no UUID"),
        ("'{'", "jsonb", "json"),
        ("'blue'", "colour", "blue"),
        ("'-'", "positive_text", "positive_text"),
        ("cast(X'ff' as string)", "text", "UTF-8"),
        ("date_from_unix_date(2147483647)", "date", "out of range"),
        ("date_from_unix_date(-2147483648)", "date", "4713 BC"),
        ("timestamp_micros(-9223372036854775808L)", "timestamptz", "4713 BC"),
        ("null", "integer NOT NULL", "null value in column"),
        ("-1", "integer CHECK (it > 0)", "target_it_check"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_before_anything_is_decided(
    what: str, kind: str, said: str, long: bool, spark: SparkSession, database: Database, opened: Opens, prepare: Puts
) -> None:
    database.admin(TYPES)
    database.admin(f"CREATE TABLE target (it {kind})")
    sink = opened(table="target")
    with pytest.raises(InvalidRows, match="it") as refused:
        prepare(sink, spark.range(1).selectExpr(f"{what} as it"), long=long)
    assert said in str(refused.value)
    assert database.column("SELECT count(*) FROM target") == [0]


def test_nan_is_a_number_of_its_own(spark: SparkSession, database: Database, opened: Opens, put: Puts) -> None:
    """Arrow holds NaN and null apart; so does the target."""
    database.admin("CREATE TABLE target (it double precision)")
    put(opened(table="target"), spark.sql("SELECT * FROM VALUES (double('NaN')), (null), (1.0D) AS t(it)"))
    got = database.column("SELECT it FROM target")
    assert sorted("nan" if it is not None and math.isnan(it) else str(it) for it in got) == ["1.0", "None", "nan"]
