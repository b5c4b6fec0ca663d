"""What would make the move fail for good, looked for while nothing is decided: duplicate keys, missing references.

Only what a statement over the staged rows can tell; a trigger, an exclusion constraint or a missing partition shows
at the move itself. Reads of other tables are left out where we have no right to them.
"""

from collections.abc import Iterator, Sequence

from psycopg import Cursor, sql

from onceward.errors import InvalidRows
from onceward.sinks.postgres import staging
from onceward.sinks.postgres.catalog import Reference, Target, Unique
from onceward.sinks.postgres.names import Table
from onceward.sinks.postgres.session import Row


def require_none(
    cursor: Cursor[Row],
    source: Table,
    tries: Sequence[int] | None,
    target: Target,
    names: Sequence[str],
    key: Sequence[str],
) -> None:
    """Raise `InvalidRows` for the first row that cannot go into the target."""
    for query, columns, reason in _queries(staging.counted(source, tries), target, names, key):
        found = cursor.execute(query).fetchone()
        if found is not None:
            raise InvalidRows(f"{target.table}: the key ({', '.join(columns)}) = ({found[0]}) {reason}")
    # The server looks the statement over without running it: columns, types, rights, an index for the key.
    cursor.execute(sql.SQL("EXPLAIN {}").format(staging.move(source, tries, target.table, names, key)))


def _queries(
    rows: sql.Composed, target: Target, names: Sequence[str], key: Sequence[str]
) -> Iterator[tuple[sql.Composed, Sequence[str], str]]:
    """A statement that finds an offender, its columns, and what is wrong with it."""
    for unique in target.uniques:
        columns = unique.columns
        if not set(columns) <= set(names):
            continue  # a default fills the rest
        is_key = set(columns) == set(key)
        index = "an upsert writes a row once" if is_key else f"{unique.name!r} is a unique index"
        reason = f"comes twice in one epoch, and {index}; reduce the rows to one per key before they reach the sink"
        yield _twice(rows, unique), columns, reason
        if target.readable and not is_key:
            reason = f"is in the table already, and {index}; use mode='upsert' with that key to write over it"
            yield _taken(rows, unique, target.table, key), columns, reason
    for reference in target.references:
        if reference.readable and set(reference.columns) <= set(names) and reference.table != target.table:
            reason = f"is not in {reference.table}, to which the foreign key {reference.name!r} points"
            yield _dangling(rows, reference), reference.columns, reason


def _twice(rows: sql.Composed, unique: Unique) -> sql.Composed:
    return sql.SQL("SELECT {} FROM {} s WHERE {} GROUP BY {} HAVING count(*) > 1 LIMIT 1").format(
        _values(unique.columns), rows, _present(unique.columns), _columns("s", unique.columns)
    )


def _taken(rows: sql.Composed, unique: Unique, table: Table, key: Sequence[str]) -> sql.Composed:
    """Not by a row that the same epoch writes over: what it will hold then is not known here."""
    query = sql.SQL("SELECT {} FROM {} s JOIN {} t ON {}").format(
        _values(unique.columns), rows, table.identifier, _equal("t", unique.columns, "s", unique.columns)
    )
    if key:
        query += sql.SQL(" WHERE NOT EXISTS (SELECT FROM {} k WHERE {})").format(rows, _equal("k", key, "t", key))
    return query + sql.SQL(" LIMIT 1")


def _dangling(rows: sql.Composed, reference: Reference) -> sql.Composed:
    return sql.SQL("SELECT {} FROM {} s WHERE {} AND NOT EXISTS (SELECT FROM {} r WHERE {}) LIMIT 1").format(
        _values(reference.columns),
        rows,
        _present(reference.columns),
        reference.table.identifier,
        _equal("r", reference.keys, "s", reference.columns),
    )


def _values(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL("concat_ws(', ', {})").format(_columns("s", columns))


def _columns(alias: str, columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(alias, name) for name in columns)


def _present(columns: Sequence[str]) -> sql.Composed:
    return sql.SQL(" AND ").join(sql.SQL("{} IS NOT NULL").format(sql.Identifier("s", name)) for name in columns)


def _equal(left: str, lefts: Sequence[str], right: str, rights: Sequence[str]) -> sql.Composed:
    pairs = zip(lefts, rights, strict=True)
    return sql.SQL(" AND ").join(
        sql.SQL("{} = {}").format(sql.Identifier(left, one), sql.Identifier(right, other)) for one, other in pairs
    )
