"""PostgresLookup on a real server: one snapshot, every type with and without rows, and errors that say what to do."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

import onceward as ow
from onceward.errors import ConfigurationError, LookupUnreachable, LookupUnusable
from onceward.servers.broker.layout import free_ports
from support.postgres import PASSWORD, Database, away
from support.waiting import eventually

COLUMNS = {
    "yes": ("boolean", "true", True, pa.bool_()),
    "small": ("smallint", "-2", -2, pa.int16()),
    "int": ("integer", "3", 3, pa.int32()),
    "big": ("bigint", "9223372036854775807", 2**63 - 1, pa.int64()),
    "single": ("real", "0.5", 0.5, pa.float32()),
    "double": ("double precision", "'NaN'", None, pa.float64()),  # not equal to itself: looked at apart
    "money": ("numeric(12,2)", "12.3", Decimal("12.30"), pa.decimal128(12, 2)),
    "whole": ("numeric(38)", "9" * 38, Decimal("9" * 38), pa.decimal128(38, 0)),
    "text": ("text", "'zoë 💶'", "zoë 💶", pa.string()),
    "short": ("varchar(5)", "'abc'", "abc", pa.string()),
    "fixed": ("char(4)", "'ab'", "ab  ", pa.string()),
    "name": ("name", "'n'", "n", pa.string()),
    "uuid": (
        "uuid",
        "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
        "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        pa.string(),
    ),
    "json": ("json", """'{"a":  1}'""", '{"a":  1}', pa.string()),
    "jsonb": ("jsonb", """'{"b": [1, null]}'""", '{"b": [1, null]}', pa.string()),
    "day": ("date", "'0001-01-01'", date(1, 1, 1), pa.date32()),
    "wall": (
        "timestamp",
        "'9999-12-31 23:59:59.999999'",
        datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001 - it has no zone
        pa.timestamp("us"),
    ),
    "moment": (
        "timestamptz",
        "'2026-03-29 02:30:00.000001+01'",
        datetime(2026, 3, 29, 1, 30, 0, 1, UTC),
        pa.timestamp("us", tz="UTC"),
    ),
    "raw": ("bytea", r"'\x00ff'", b"\x00\xff", pa.binary()),
}


def test_types_come_from_the_server_so_that_no_rows_have_them_too(database: Database) -> None:
    """F6: an empty table joins like a full one."""
    kinds = ", ".join(f'"{name}" {kind}' for name, (kind, *_) in COLUMNS.items())
    values = ", ".join(literal for _, literal, *_ in COLUMNS.values())
    database.admin(f"CREATE TABLE everything ({kinds})")
    database.admin(f"INSERT INTO everything VALUES ({values})")
    database.admin("INSERT INTO everything DEFAULT VALUES")
    database.admin("CREATE DOMAIN cents AS numeric(12,2)")
    # The role's own settings for times must not matter.
    database.admin(f"ALTER DATABASE {database.name} SET timezone = 'America/New_York'")
    database.admin(f"ALTER DATABASE {database.name} SET datestyle = 'SQL, DMY'")
    found = ow.PostgresLookup(
        database.dsn(),
        {
            "full": "SELECT * FROM everything ORDER BY text",
            "empty": "SELECT * FROM everything WHERE text LIKE '%none%';",
            "domain": "SELECT 1::cents AS price",
        },
    ).read()
    schema = pa.schema([(name, kind) for name, (*_, kind) in COLUMNS.items()])
    assert found["full"].schema == found["empty"].schema == schema
    assert found["empty"].num_rows == 0
    first, second = found["full"].to_pylist()
    assert str(first.pop("double")) == "nan"
    assert first == {name: value for name, (_, _, value, _) in COLUMNS.items() if name != "double"}
    assert set(second.values()) == {None}
    assert found["domain"].to_pylist() == [{"price": Decimal("1.00")}]


def test_all_queries_see_one_snapshot_though_both_tables_change_between_them(database: Database) -> None:
    """F6: the second query waits behind the change, and still sees what was before it."""
    database.admin("CREATE TABLE ads AS SELECT 1 AS version; CREATE TABLE prices AS SELECT 1 AS version")
    lookup = ow.PostgresLookup(
        database.dsn(), {"ads": "SELECT version FROM ads", "prices": "SELECT version FROM prices"}
    )
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%FROM prices%'"
    with ThreadPoolExecutor(1) as reader, database.connect() as other:
        with other.transaction():
            other.execute("LOCK TABLE prices IN ACCESS EXCLUSIVE MODE")
            reading = reader.submit(lookup.read)
            eventually(lambda: database.column(waiting), "the second query waits, the first is read")
            other.execute("UPDATE ads SET version = 2")
            other.execute("UPDATE prices SET version = 2")
        found = reading.result(60)
    assert [found[name].to_pylist() for name in ("ads", "prices")] == [[{"version": 1}]] * 2
    assert [table.to_pylist() for table in lookup.read().values()] == [[{"version": 2}]] * 2
    assert database.column("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in%'") == [0]


def test_many_rows_arrive_whole(database: Database) -> None:
    found = ow.PostgresLookup(database.dsn(), {"n": "SELECT n FROM generate_series(1, 120000) n"}).read()["n"]
    assert found["n"].to_pylist() == list(range(1, 120_001))


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT 1.5 AS price", r"'price' is numeric without precision.*price::numeric\(12,2\)"),
        ("SELECT 1::numeric(50,2) AS price", r"numeric\(50,2\).*price::numeric\(12,2\)"),
        ("SELECT 100::numeric(3,-2) AS price", r"numeric\(3,-2\).*price::numeric\(12,2\)"),
        ("SELECT 'NaN'::numeric(9,2) AS price", r"'price' has a NaN.*nullif\(price, 'NaN'\)"),
        ("SELECT '1 day'::interval AS span", r"'span' has type interval.*span::text"),
        ("SELECT ARRAY[1] AS many", r"'many' has type int4\[\].*many::text"),
        ("SELECT 'infinity'::timestamptz AS until, 1 AS n", r"infinity.*dates and times: until"),
        ("SELECT '-infinity'::date AS until", r"infinity.*dates and times: until"),
        ("SELECT '20000-01-01'::timestamp AS until", r"year.*dates and times: until"),
        ("SELECT no_such FROM nowhere", "'it'.*nowhere.*42P01"),
        ("DELETE FROM there RETURNING n", "only reads"),
        ("BEGIN", "one SELECT"),
        ("SELECT 1 AS n; COMMIT; SELECT 2 AS n", "multiple commands"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_what_to_write_instead(database: Database, query: str, why: str) -> None:
    database.admin("CREATE TABLE there (n int)")
    with pytest.raises(LookupUnusable, match=why):
        ow.PostgresLookup(database.dsn(), {"it": query}).read()


def test_a_database_that_is_away_or_shuts_us_out_is_named_without_its_password(database: Database) -> None:
    """Whoever asks again may be lucky, so it is `LookupUnreachable`; secrets are shown nowhere."""
    (nobody,) = free_ports(1)
    for options in ({"user": "locked", "password": "wr0ng"}, {"password": PASSWORD, "port": nobody}):
        lookup = ow.PostgresLookup(database.dsn(**options), {"it": "SELECT 1 AS n"})
        with pytest.raises(LookupUnreachable, match=r"127\.0\.0\.1.*cannot be reached") as refused:
            lookup.read()
        shown = f"{refused.value} {refused.value.__cause__} {lookup!r}"
        assert "wr0ng" not in shown
        assert PASSWORD not in shown
    assert "SELECT 1 AS n" in repr(lookup)


def test_a_connection_cut_in_the_middle_is_passing(database: Database) -> None:
    lookup = ow.PostgresLookup(database.dsn(), {"it": "SELECT pg_terminate_backend(pg_backend_pid())::text AS n"})
    with pytest.raises(LookupUnreachable, match="'it'"):
        lookup.read()


def test_after_a_restart_of_the_server_the_next_read_works(database: Database) -> None:
    lookup = ow.PostgresLookup(database.dsn(), {"it": "SELECT 1 AS n"})
    lookup.read()
    with away(database.server), pytest.raises(LookupUnreachable, match="cannot be reached"):
        lookup.read()
    assert lookup.read()["it"].to_pylist() == [{"n": 1}]


@pytest.mark.parametrize("queries", [{}, {"it": " "}, {"": "SELECT 1 AS n"}])
def test_queries_are_named_selects(queries: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="a SELECT for each table"):
        ow.PostgresLookup("dbname=shop", queries)


def test_a_wrong_dsn_is_refused_without_being_repeated() -> None:
    with pytest.raises(ConfigurationError, match="no PostgreSQL connection string") as refused:
        ow.PostgresLookup(f"password={PASSWORD} nonsense", {"it": "SELECT 1 AS n"})
    assert PASSWORD not in str(refused.value)
