"""The marker: one row per pipeline and sink, written in the transaction that makes an epoch visible.

The row also names its owner, the newest lineage and term that took the sink over. A driver of an older term finds
itself fenced: it stages nothing and aborts nothing more. Committing what was decided is right for everyone.
"""

from dataclasses import dataclass
from typing import Final

from psycopg import Cursor, errors, sql

from onceward.epoch.contract import LastCommit, Owner
from onceward.epoch.outcome import Outcome
from onceward.epoch.recovery import require_ours
from onceward.errors import PipelineFenced, TargetUnusable
from onceward.sinks.postgres.names import Table, key_of
from onceward.sinks.postgres.session import TERMINATE_MS, Row

MARKERS: Final = "markers"
SETUP_LOCK: Final = 0x6F6E_6365_7761_7264  # "onceward": whoever makes tables here takes this advisory lock first
# Room on the page for a new version of the row at every epoch, without touching the index.
_CREATE: Final = sql.SQL("""
CREATE TABLE {} (
    pipeline text, sink text,
    owner_lineage text NOT NULL, owner_term bigint NOT NULL,
    lineage text, epoch bigint, term bigint, rows bigint, digest numeric(20), target text, committed_at timestamptz,
    PRIMARY KEY (pipeline, sink)
) WITH (fillfactor = 20)
""")


@dataclass(frozen=True, slots=True)
class Marker:
    """What the row says. `lineage` to `digest` are of the last commit, None before the first."""

    owner_lineage: str
    owner_term: int
    lineage: str | None = None
    epoch: int | None = None
    term: int | None = None
    rows: int | None = None
    digest: int | None = None

    @property
    def last_commit(self) -> LastCommit | None:
        """The commit it tells of."""
        if self.lineage is None or self.epoch is None or self.term is None:
            return None
        outcome = Outcome(rows=self.rows or 0, digest=self.digest or 0)
        return LastCommit(lineage=self.lineage, epoch=self.epoch, term=self.term, outcome=outcome)

    def has(self, lineage: str, epoch: int) -> bool:
        """Is this epoch visible?"""
        return self.lineage == lineage and self.epoch is not None and self.epoch >= epoch

    def is_fenced(self, owner: Owner) -> bool:
        """Has a newer driver of this lineage, or one of another lineage, taken over?"""
        return self.owner_lineage != owner.lineage or self.owner_term > owner.term


def application(owner: Owner) -> str:
    """What our connections are called in pg_stat_activity, by which an older term's are found."""
    return f"onceward {key_of(owner)} {owner.term}"


def set_up(cursor: Cursor[Row], schema: str) -> None:
    """Make the schema and the table of markers, if they are missing."""
    table = Table(schema, MARKERS)
    try:
        if _is_there(cursor, table):
            return
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (SETUP_LOCK,))
        if cursor.execute("SELECT to_regnamespace(%s) IS NULL", (sql.Identifier(schema).as_string(),)).fetchone() == (
            True,
        ):
            cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        if not _is_there(cursor, table):
            cursor.execute(_CREATE.format(table.identifier))
    except errors.InsufficientPrivilege as error:
        raise _no_rights(cursor, schema, str(error.diag.message_primary)) from None


def require_rights(cursor: Cursor[Row], schema: str) -> None:
    """The rights to stage and to mark."""
    table = Table(schema, MARKERS)
    found = cursor.execute(
        "SELECT has_schema_privilege(%s, 'USAGE') AND has_schema_privilege(%s, 'CREATE'), "
        "has_table_privilege(%s, 'SELECT') AND has_table_privilege(%s, 'INSERT') AND has_table_privilege(%s, 'UPDATE')",
        (schema, schema, *[str(table)] * 3),
    ).fetchone()
    if found != (True, True):
        raise _no_rights(cursor, schema, f"no right to use the schema {schema!r}")


def read(cursor: Cursor[Row], schema: str, owner: Owner, *, lock: bool = False) -> Marker | None:
    """The row; with `lock` nobody else changes it until the transaction ends."""
    found = cursor.execute(
        sql.SQL(
            "SELECT owner_lineage, owner_term, lineage, epoch, term, rows, digest::text "
            "FROM {} WHERE pipeline = %s AND sink = %s" + (" FOR UPDATE" if lock else "")
        ).format(sql.Identifier(schema, MARKERS)),
        (owner.pipeline, owner.sink),
    ).fetchone()
    if found is None:
        return None
    owner_lineage, owner_term, lineage, epoch, term, rows, digest = found
    return Marker(owner_lineage, owner_term, lineage, epoch, term, rows, None if digest is None else int(digest))


def claim(cursor: Cursor[Row], schema: str, owner: Owner) -> None:
    """Take the sink over: end the connections of older terms, then write our lineage and term into the row.

    Connections to this database only: a pipeline of the same name may live in another database of the server.
    """
    cursor.execute(
        "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity "
        "WHERE datname = current_database() AND usename = current_user "
        "AND CASE WHEN application_name ~ %s THEN split_part(application_name, ' ', 3)::bigint < %s ELSE false END",
        (TERMINATE_MS, f"^onceward {key_of(owner)} [0-9]+$", owner.term),
    )
    claimed = cursor.execute(
        sql.SQL(
            "INSERT INTO {} AS m (pipeline, sink, owner_lineage, owner_term) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (pipeline, sink) DO UPDATE "
            "SET owner_lineage = excluded.owner_lineage, owner_term = excluded.owner_term "
            "WHERE m.owner_lineage <> excluded.owner_lineage OR m.owner_term <= excluded.owner_term RETURNING true"
        ).format(sql.Identifier(schema, MARKERS)),
        (owner.pipeline, owner.sink, owner.lineage, owner.term),
    ).fetchone()
    if claimed is None:
        raise fenced(owner)


def hold(cursor: Cursor[Row], schema: str, owner: Owner, *, lock: bool = False) -> Marker:
    """The row; if somebody has removed it, it is made again, and tells of no commit."""
    found = read(cursor, schema, owner, lock=lock)
    if found is None:
        claim(cursor, schema, owner)
        found = read(cursor, schema, owner, lock=lock)
        assert found is not None
    return found


def require_free(found: Marker | None, owner: Owner) -> None:
    """May this owner take the sink over? To be asked before `claim`, which disturbs whoever has it."""
    if found is None:
        return
    if (last := found.last_commit) is not None:
        require_ours(owner, owner.sink, last)
    if found.owner_lineage == owner.lineage and found.owner_term > owner.term:
        raise fenced(owner)


def write(cursor: Cursor[Row], schema: str, owner: Owner, marker: Marker, target: Table) -> None:
    """The epoch is committed, or will be when this transaction commits."""
    cursor.execute(
        sql.SQL(
            "UPDATE {} SET lineage = %s, epoch = %s, term = %s, rows = %s, digest = %s, target = %s, "
            "committed_at = clock_timestamp() WHERE pipeline = %s AND sink = %s"
        ).format(sql.Identifier(schema, MARKERS)),
        (
            marker.lineage,
            marker.epoch,
            marker.term,
            marker.rows,
            marker.digest,
            str(target),
            owner.pipeline,
            owner.sink,
        ),
    )
    assert cursor.rowcount == 1


def fenced(owner: Owner) -> PipelineFenced:
    """The message for a driver that was overtaken."""
    return PipelineFenced(
        f"pipeline {owner.pipeline!r}, sink {owner.sink!r}: a newer driver than term {owner.term} has taken over the "
        "PostgreSQL sink. This one stops and adds nothing more."
    )


def _is_there(cursor: Cursor[Row], table: Table) -> bool:
    return cursor.execute("SELECT to_regclass(%s) IS NOT NULL", (str(table),)).fetchone() == (True,)


def _no_rights(cursor: Cursor[Row], schema: str, reason: str) -> TargetUnusable:
    role, quoted = sql.Identifier(cursor.connection.info.user).as_string(), sql.Identifier(schema).as_string()
    return TargetUnusable(
        f"{reason}. Onceward keeps staged rows and markers in a schema of its own. Let somebody who may run: "
        f"CREATE SCHEMA {quoted} AUTHORIZATION {role}; or, where it exists: "
        f"GRANT USAGE, CREATE ON SCHEMA {quoted} TO {role}; "
        f"GRANT SELECT, INSERT, UPDATE ON {quoted}.{MARKERS} TO {role}; or name another with PostgresSink(schema=...)"
    )
