"""How an epoch's columns go into the target, found out from the server and checked before anything is written."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from psycopg import Cursor, sql
from pyspark.sql.types import StructType

from onceward.errors import InvalidRows, TargetUnusable
from onceward.sinks.postgres import catalog, marker, staging
from onceward.sinks.postgres.catalog import Target
from onceward.sinks.postgres.columns import Layout, create_table, lay_out
from onceward.sinks.postgres.names import Table
from onceward.sinks.postgres.session import Row

MAX_AGE_S: Final = 10.0  # how long the target's columns and constraints are taken for granted


@dataclass(frozen=True, slots=True)
class Shape:
    """The rows' columns in the target's, as they were at a time."""

    schema: StructType
    target: Target
    layout: Layout
    read_at: float

    def still_fits(self, schema: StructType) -> bool:
        """Same columns, and looked at a moment ago."""
        return time.monotonic() - self.read_at <= MAX_AGE_S and self.schema == schema


def look(cursor: Cursor[Row], schema: StructType, table: Table, key: Sequence[str], *, create: bool) -> Shape:
    """The rows' columns in the target's; with `create` a missing target is made for them."""
    if staging.TRY in schema.names:
        raise InvalidRows(f"the rows have a column {staging.TRY!r}, which Onceward needs for itself: rename it")
    target = catalog.find(cursor, table)
    if target is None and create:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (marker.SETUP_LOCK,))
        target = catalog.find(cursor, table)
        if target is None:
            cursor.execute(create_table(schema, table, key))
            target = catalog.find(cursor, table)
    if target is None:
        raise TargetUnusable(f"the table {table} is gone; nothing of this epoch is written")
    require_usable(cursor, target, key)
    return Shape(schema, target, lay_out(schema, target, key), time.monotonic())


def require_usable(cursor: Cursor[Row], target: Target, key: Sequence[str]) -> None:
    """Our rights, and for an upsert the index by which it finds rows."""
    catalog.require_rights(cursor, target.table, update=bool(key))
    if key and not any(unique.immediate and set(unique.columns) == set(key) for unique in target.uniques):
        names = sql.SQL(", ").join(map(sql.Identifier, key)).as_string()
        raise TargetUnusable(
            f"{target.table} has no unique index on exactly the key's columns, by which an upsert finds rows: "
            f"ALTER TABLE {target.table} ADD PRIMARY KEY ({names})"
        )
