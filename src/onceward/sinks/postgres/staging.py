"""Staging tables: real, logged, one per try of an epoch, shaped like the target's columns and with its constraints.

A table of its own for each try keeps tries and terms apart, and its DROP inside the commit costs less than deleting
rows from a permanent one; emptying a permanent one with TRUNCATE costs the same, and would wait for a paused driver.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from psycopg import Cursor, sql

from onceward.epoch.contract import Owner
from onceward.sinks.postgres.catalog import Target
from onceward.sinks.postgres.columns import Layout
from onceward.sinks.postgres.names import StagingName, Table, key_of, short_lineage
from onceward.sinks.postgres.session import TERMINATE_MS, Row

TRY: Final = "__onceward_try"  # which run of which task wrote a row; only there when tasks write
# Vacuuming what is about to be dropped would only hold up the drop.
_QUIET: Final = sql.SQL(" WITH (autovacuum_enabled = false)")


def create(table: Table, layout: Layout, target: Target, key: Sequence[str], *, tagged: bool) -> sql.Composed:
    """The statement that makes a staging table: what the target would refuse for good is refused here already."""
    return sql.SQL("CREATE TABLE IF NOT EXISTS {} ({}){}").format(
        table.identifier, _shape(layout, target, key, tagged=tagged), _QUIET
    )


def create_temporary(table: Table, layout: Layout, target: Target, key: Sequence[str]) -> sql.Composed:
    """The same for rows that go on within this transaction."""
    return sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(
        sql.Identifier(table.name), _shape(layout, target, key, tagged=False)
    )


def copy(table: Table, names: Sequence[str], *, tagged: bool = False) -> sql.Composed:
    """The COPY that fills a table."""
    columns = sql.SQL(", ").join(map(sql.Identifier, [*names, *([TRY] if tagged else [])]))
    return sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(table.identifier, columns)


def counted(table: Table, tries: Sequence[int] | None) -> sql.Composed:
    """The rows that count: of the given tries, or all of them."""
    if tries is None:
        return sql.SQL("{}").format(table.identifier)
    return sql.SQL("(SELECT * FROM {} WHERE {} = ANY ({}))").format(
        table.identifier, sql.Identifier(TRY), sql.Literal(list(tries))
    )


def count(cursor: Cursor[Row], table: Table, tries: Sequence[int] | None) -> int:
    """How many rows count."""
    found = cursor.execute(sql.SQL("SELECT count(*) FROM {} s").format(counted(table, tries))).fetchone()
    assert found is not None
    return int(found[0])


def move(
    source: Table, tries: Sequence[int] | None, target: Table, names: Sequence[str], key: Sequence[str]
) -> sql.Composed:
    """The statement that moves rows into the target; with a key, over those already there."""
    columns = sql.SQL(", ").join(map(sql.Identifier, names))
    insert = sql.SQL("INSERT INTO {} ({columns}) SELECT {columns} FROM {} s").format(
        target.identifier, counted(source, tries), columns=columns
    )
    if not key:
        return insert
    rest = [sql.Identifier(name) for name in names if name not in key]
    sets = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(name) for name in rest)
    action = sql.SQL("UPDATE SET {}").format(sets) if rest else sql.SQL("NOTHING")
    return insert + sql.SQL(" ON CONFLICT ({}) DO {}").format(sql.SQL(", ").join(map(sql.Identifier, key)), action)


def staged(cursor: Cursor[Row], schema: str, owner: Owner) -> list[StagingName]:
    """Everything staged for this pipeline and sink, of any lineage, epoch, term and attempt."""
    prefix = f"stage_{key_of(owner)}_"
    found = cursor.execute(
        # A range, because pg_class has an index on names.
        "SELECT relname FROM pg_class WHERE relname >= %s AND relname < %s AND relkind = 'r' "
        "AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)",
        (prefix, prefix[:-1] + chr(ord("_") + 1), schema),
    ).fetchall()
    return [name for (text,) in found if (name := StagingName.parse(text)) is not None]


def dead(names: Iterable[StagingName], owner: Owner, epoch: int) -> list[StagingName]:
    """What is of no use once `owner` is done with `epoch`: other lineages', and older tries of epochs up to it."""
    lineage = short_lineage(owner.lineage)
    return [name for name in names if name.lineage != lineage or (name.epoch <= epoch and name.term <= owner.term)]


def drop(cursor: Cursor[Row], schema: str, names: Sequence[StagingName], *, end_writers: bool = True) -> None:
    """Drop the tables; tasks that still write into them are cut off first, else the drop would wait for them."""
    tables = [Table(schema, str(name)) for name in names]
    if tables and end_writers:
        cursor.execute(
            # Numbers of tables are the database's own: another database may have locks under the same number.
            "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE datname = current_database() "
            "AND usename = current_user AND pid <> pg_backend_pid() "
            "AND pid IN (SELECT pid FROM pg_locks WHERE relation IN "
            "(SELECT to_regclass(t) FROM unnest(%s::text[]) t))",
            (TERMINATE_MS, [str(table) for table in tables]),
        )
    for table in tables:
        cursor.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(table.identifier))


def _shape(layout: Layout, target: Target, key: Sequence[str], *, tagged: bool) -> sql.Composed:
    """Types, collations and constraints come from the server as SQL, quoted by itself."""
    parts: list[sql.Composable] = []
    for column in layout.columns:
        text = column.sql_type + (f" COLLATE {column.collation}" if column.collation else "")
        text += " NOT NULL" if column.not_null or column.name in key else ""
        parts.append(sql.SQL("{} {}").format(sql.Identifier(column.name), _given(text)))
    if tagged:
        parts.append(sql.SQL("{} bigint NOT NULL").format(sql.Identifier(TRY)))
    parts += [_given(check.definition) for check in target.checks if set(check.columns) <= set(layout.names)]
    return sql.SQL(", ").join(parts)


def _given(text: str) -> sql.SQL:
    return sql.SQL(text)  # from the server's catalog, not from a user
