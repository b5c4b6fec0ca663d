"""A PostgreSQL sink's server and rights: asked without claiming anything, and judged."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import psycopg

from onceward.doctor.finding import Finding, note, ok, risk
from onceward.postgres.failures import described
from onceward.postgres.options import Options
from onceward.sinks.postgres.names import Table
from onceward.sinks.postgres.sink import PostgresSink

OLDEST: Final = 14
_SERVER: Final = """
SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(),
       current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')
"""
_TARGET: Final = """
SELECT has_table_privilege(to_regclass(%(table)s), 'INSERT'), has_table_privilege(to_regclass(%(table)s), 'SELECT'),
       has_table_privilege(to_regclass(%(table)s), 'UPDATE')
"""
_SCHEMA: Final = """
SELECT coalesce((SELECT has_schema_privilege(oid, 'USAGE') AND has_schema_privilege(oid, 'CREATE')
                 FROM pg_namespace WHERE nspname = %(schema)s),
                has_database_privilege(current_database(), 'CREATE'))
"""


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """`insert` and the others are None where the table does not exist."""

    release: int
    standby: bool
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    insert: bool | None
    select: bool | None
    update: bool | None
    schema: bool  # ours may be used, or made


def look(options: Options, table: Table, schema: str) -> DatabaseFacts:
    """Read only."""
    with options.connect() as connection:
        server = connection.execute(_SERVER).fetchone()
        rights = connection.execute(_TARGET, {"table": str(table)}).fetchone()
        ours = connection.execute(_SCHEMA, {"schema": schema}).fetchone()
    assert server is not None
    assert rights is not None
    assert ours is not None
    release, standby, fsync, pages, synchronous = server
    insert, select, update = rights
    return DatabaseFacts(
        release=release,
        standby=standby,
        fsync=fsync == "on",
        full_page_writes=pages == "on",
        synchronous_commit=synchronous,
        insert=insert,
        select=select,
        update=update,
        schema=ours[0],
    )


def examine(about: str, sink: PostgresSink) -> Iterator[Finding]:
    """A pipeline's sink."""
    try:
        facts = look(sink.options, sink.table, sink.schema)
    except psycopg.Error as error:
        fix = "start the server, or correct host, port, user, password and database in the dsn"
        yield risk(about, f"{sink.options.place}: {described(error)}", fix)
        return
    yield from judge(about, facts, sink)


def judge(about: str, facts: DatabaseFacts, sink: PostgresSink) -> Iterator[Finding]:
    """What the server's words mean for the guarantee."""
    if facts.release < OLDEST:
        yield risk(about, f"PostgreSQL {facts.release}", f"PostgreSQL {OLDEST} or newer")
    elif facts.standby:
        yield risk(about, "the server is a standby: it can only be read", "name the primary in the dsn")
    else:
        yield ok(about, f"PostgreSQL {facts.release}, {sink.options.place}")
    if not (facts.fsync and facts.full_page_writes):
        says = "fsync or full_page_writes is off: a crash of the server may lose or tear committed rows"
        yield risk(about, says, "switch both on in postgresql.conf")
    if facts.synchronous_commit == "off":
        says = "synchronous_commit is off for this user; Onceward's own transactions switch it on"
        yield note(about, says, "nothing, unless others write the same tables")
    yield from _rights(about, facts, sink)


def _rights(about: str, facts: DatabaseFacts, sink: PostgresSink) -> Iterator[Finding]:
    if facts.insert is None and not sink.create:
        says = f"there is no table {sink.table}"
        yield risk(about, says, "make it, or let PostgresSink(create=True) make it")
    needed = {"INSERT": facts.insert, "SELECT": facts.select}
    if sink.mode == "upsert":
        needed["UPDATE"] = facts.update
    if missing := [right for right, has in needed.items() if has is False]:
        yield risk(about, f"we may not {' or '.join(missing)}", f"GRANT {', '.join(missing)} ON {sink.table}")
    if not facts.schema:
        says = f"we may neither use nor make the schema {sink.schema!r}, which holds staged rows and markers"
        yield risk(about, says, "GRANT USAGE, CREATE on it, or name another with PostgresSink(schema=...)")
