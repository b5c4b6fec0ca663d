"""PostgresLookup: the results of some queries, all as of one snapshot of the database."""

from collections.abc import Mapping
from typing import Final

import psycopg
import pyarrow as pa
from psycopg import Connection

from onceward.errors import ConfigurationError, LookupUnreachable, LookupUnusable, OncewardError
from onceward.lookups import Lookup
from onceward.lookups.postgres.columns import as_text, table_of
from onceward.postgres.failures import READ_ONLY, described, is_passing
from onceward.postgres.options import Options, Row

# One snapshot for all queries, which the first of them takes. A table that is locked for longer is reported and asked
# for again; a driver that is paused in here holds the snapshot for a minute at most.
BEGIN: Final = """
    BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;
    SET LOCAL lock_timeout = '30s';
    SET LOCAL idle_in_transaction_session_timeout = '60s';
    SET LOCAL statement_timeout = 0;
    SET LOCAL timezone = 'UTC'
"""


class PostgresLookup(Lookup):
    """Tables for `rows=lambda batch, tables: ...`, each the whole result of a query.

    dsn: a libpq connection string or URL. A password may also come from PGPASSWORD or the password file.
    queries: a SELECT for each table's name. All see one snapshot (REPEATABLE READ, READ ONLY), also on a standby.

    Types: boolean, smallint, integer, bigint, real, double precision, date, bytea and numeric(p,s) as such, timestamptz
    as Spark's timestamp, timestamp as timestamp_ntz; text, varchar, char, name, uuid, json and jsonb as strings.
    Anything else needs a cast in the query, and so does numeric without precision.
    """

    def __init__(self, dsn: str, queries: Mapping[str, str]) -> None:
        if not queries or not all(part.strip() for pair in queries.items() for part in pair):
            raise ConfigurationError(
                "queries gives a SELECT for each table: PostgresLookup(dsn, {'ads': 'select ad, campaign from ads'})"
            )
        self.queries = dict(queries)
        self._options = Options.parse(dsn)

    def __repr__(self) -> str:
        return f"PostgresLookup({self._options.public!r}, {self.queries!r})"

    def read(self) -> dict[str, pa.Table]:
        """Connect, read every query's result in one transaction, and let go."""
        with self._connect() as connection:
            as_text(connection.adapters)
            try:
                connection.execute(BEGIN)
            except psycopg.Error as error:
                raise LookupUnreachable(f"{self._options.place}: {described(error)}") from error
            return {name: self._table(connection, name, query) for name, query in self.queries.items()}

    def _connect(self) -> Connection[Row]:
        try:
            return self._options.connect()
        except psycopg.OperationalError as error:
            refused = error.pgconn is not None and (error.pgconn.used_password or error.pgconn.needs_password)
            hint = "; check user, password (in the dsn, in PGPASSWORD or in the password file) and database"
            raise LookupUnreachable(
                f"{self._options.place} cannot be reached: {described(error)}{hint if refused else ''}"
            ) from None

    @staticmethod
    def _table(connection: Connection[Row], name: str, query: str) -> pa.Table:
        try:
            # The binary format, for which the server takes one statement only: none can end the transaction and go on.
            cursor = connection.execute(query.encode(), binary=True)
            return table_of(name, cursor)
        except psycopg.Error as error:
            raise _named(error, name) from error


def _named(error: psycopg.Error, name: str) -> OncewardError:
    text = f"the query of the lookup's table {name!r}: {described(error)}"
    if error.sqlstate == READ_ONLY:  # we have asked for it
        return LookupUnusable(f"{text}; a lookup only reads")
    return LookupUnreachable(text) if is_passing(error) else LookupUnusable(text)
