"""What the server knows of the target: columns, constraints, unique indexes, rights."""

from dataclasses import dataclass
from typing import Final, LiteralString

from psycopg import Cursor
from psycopg.rows import class_row

from onceward.errors import TargetUnusable
from onceward.sinks.postgres.names import Table
from onceward.sinks.postgres.session import Row

OLDEST: Final = 140_000  # the oldest release that PostgreSQL's authors still care for

# A domain travels as the type under it.
_COLUMNS: Final = """
WITH RECURSIVE base AS (
    SELECT attnum, atttypid AS type, atttypmod AS modifier FROM pg_attribute
    WHERE attrelid = %(oid)s AND attnum > 0 AND NOT attisdropped
  UNION ALL
    SELECT attnum, typbasetype, typtypmod FROM base JOIN pg_type t ON t.oid = base.type WHERE typtype = 'd'
)
SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS sql_type,
       t.oid AS type, t.typtype = 'e' AS is_enum, t.typcategory AS category, base.modifier,
       e.oid AS element, coalesce(nullif(e.typbasetype, 0), e.oid) AS element_type,
       coalesce(e.typtype = 'e', false) AS element_is_enum, coalesce(e.typcategory, '') AS element_category,
       a.attnotnull AS not_null, a.attnotnull AND NOT a.atthasdef AND a.attidentity = '' AS required,
       a.attgenerated = '' AND a.attidentity <> 'a' AS writable,
       CASE WHEN a.attcollation <> own.typcollation THEN format('%%I.%%I', n.nspname, c.collname) END AS collation
FROM pg_attribute a
JOIN pg_type own ON own.oid = a.atttypid
JOIN base USING (attnum)
JOIN pg_type t ON t.oid = base.type AND t.typtype <> 'd'
LEFT JOIN pg_type e ON e.oid = t.typelem AND t.typcategory = 'A'
LEFT JOIN pg_collation c ON c.oid = a.attcollation
LEFT JOIN pg_namespace n ON n.oid = c.collnamespace
WHERE a.attrelid = %(oid)s
ORDER BY a.attnum
"""
# Names for numbers of columns, in their order; a number that is no column's becomes a null.
_CHECKS: Final = """
SELECT format('CONSTRAINT %%I %%s', conname, pg_get_constraintdef(oid)), ARRAY(
    SELECT attname::text FROM unnest(conkey) k(number)
    LEFT JOIN pg_attribute ON attrelid = conrelid AND attnum = number)
FROM pg_constraint WHERE contype = 'c' AND conrelid = %(oid)s ORDER BY conname
"""
_UNIQUES: Final = """
SELECT relname, ARRAY(
    SELECT attname::text FROM unnest(indkey) WITH ORDINALITY k(number, place)
    JOIN pg_attribute ON attrelid = indrelid AND attnum = number
    WHERE place <= indnkeyatts ORDER BY place), indimmediate
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
WHERE indrelid = %(oid)s AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL ORDER BY relname
"""
_REFERENCES: Final = """
SELECT conname, array_agg(own.attname::text ORDER BY place), nspname, relname,
       array_agg(their.attname::text ORDER BY place), has_table_privilege(confrelid, 'SELECT')
FROM pg_constraint CROSS JOIN unnest(conkey, confkey) WITH ORDINALITY k(number, pointed, place)
JOIN pg_attribute own ON own.attrelid = conrelid AND own.attnum = number
JOIN pg_attribute their ON their.attrelid = confrelid AND their.attnum = pointed
JOIN pg_class c ON c.oid = confrelid JOIN pg_namespace n ON n.oid = relnamespace
WHERE contype = 'f' AND conrelid = %(oid)s GROUP BY conname, confrelid, nspname, relname ORDER BY conname
"""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the target.

    `type` is what travels, under any domain. An array names its `element` on the way, and that may be a domain, whose
    values travel as `element_type`.
    """

    name: str
    sql_type: str
    type: int
    is_enum: bool
    category: str
    modifier: int
    element: int | None
    element_type: int | None
    element_is_enum: bool
    element_category: str
    not_null: bool
    required: bool
    writable: bool
    collation: str | None


@dataclass(frozen=True, slots=True)
class Check:
    """A CHECK constraint as SQL, and the columns it looks at."""

    definition: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unique:
    """A unique index over plain columns, over all rows."""

    name: str
    columns: tuple[str, ...]
    immediate: bool


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key, and whether we may read the table it points to."""

    name: str
    columns: tuple[str, ...]
    table: Table
    keys: tuple[str, ...]
    readable: bool


@dataclass(frozen=True, slots=True)
class Target:
    """The table that rows go to, as it was when it was looked at."""

    table: Table
    columns: tuple[Column, ...]
    checks: tuple[Check, ...]
    uniques: tuple[Unique, ...]
    references: tuple[Reference, ...]
    readable: bool


def find(cursor: Cursor[Row], table: Table) -> Target | None:
    """The target, if there is such a table. What stands under the name and is no table is refused."""
    found = cursor.execute(
        "SELECT c.oid, nspname, relname, relkind, relpersistence, has_table_privilege(c.oid, 'SELECT') FROM pg_class c "
        "JOIN pg_namespace n ON n.oid = relnamespace WHERE c.oid = to_regclass(%s)",
        (str(table),),
    ).fetchone()
    if found is None:
        return None
    oid, schema, name, kind, persistence, readable = found
    resolved = Table(schema, name)
    if kind not in ("r", "p"):
        raise TargetUnusable(f"{resolved} is no table (relkind {kind!r}); PostgresSink writes to tables")
    if persistence != "p":
        raise TargetUnusable(
            f"{resolved} is unlogged or temporary: a crash of the server would empty it and keep the marker that says "
            f"what is in it; ALTER TABLE {resolved} SET LOGGED"
        )

    def ask(query: LiteralString) -> list[Row]:
        return cursor.execute(query, {"oid": oid}).fetchall()

    with cursor.connection.cursor(row_factory=class_row(Column)) as columns_cursor:
        columns = columns_cursor.execute(_COLUMNS, {"oid": oid}).fetchall()
    return Target(
        table=resolved,
        columns=tuple(columns),
        checks=tuple(Check(definition, tuple(names)) for definition, names in ask(_CHECKS)),
        uniques=tuple(Unique(index, tuple(names), immediate) for index, names, immediate in ask(_UNIQUES)),
        references=tuple(
            Reference(constraint, tuple(names), Table(other_schema, other), tuple(keys), readable)
            for constraint, names, other_schema, other, keys, readable in ask(_REFERENCES)
        ),
        readable=readable,
    )


def require_server(cursor: Cursor[Row], place: str) -> None:
    """A server that is recent enough."""
    version = cursor.connection.info.server_version
    if version < OLDEST:
        raise TargetUnusable(f"{place} is version {version // 10_000}; PostgresSink needs {OLDEST // 10_000} or later")


def require_rights(cursor: Cursor[Row], table: Table, *, update: bool) -> None:
    """The rights to insert and, for an upsert, to read and update."""
    rights = ("INSERT", "SELECT", "UPDATE") if update else ("INSERT",)
    for right in rights:
        held = cursor.execute("SELECT has_any_column_privilege(%s, %s), current_user", (str(table), right)).fetchone()
        assert held is not None
        if not held[0]:
            raise TargetUnusable(f"role {held[1]!r} may not {right} on {table}; GRANT {', '.join(rights)} ON {table}")
