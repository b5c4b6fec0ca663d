"""Connections: what every transaction of ours sets, and one that is made again when it breaks.

Settings are made per transaction (SET LOCAL), so that a pooler that gives each transaction another server connection
does no harm.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

import psycopg
from psycopg import Connection, Cursor
from psycopg.pq import TransactionStatus

from onceward.errors import SinkUnreachable, TargetUnusable
from onceward.postgres.failures import described
from onceward.postgres.options import Options
from onceward.sinks.postgres.failures import named

T = TypeVar("T")
Row = tuple[Any, ...]

TERMINATE_MS: Final = 10_000  # for a server process to end when told so; it takes milliseconds
# A lock that is held longer is reported and tried again. A driver that is paused inside a transaction loses it after a
# minute, so that it cannot hold up its successor. A role may have switched synchronous_commit off: what is staged has
# to outlive a crash of the server, so here it is never off.
BEGIN: Final = """
    BEGIN ISOLATION LEVEL READ COMMITTED;
    SET LOCAL lock_timeout = '30s';
    SET LOCAL idle_in_transaction_session_timeout = '60s';
    SET LOCAL statement_timeout = 0;
    SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'
"""


@contextmanager
def transaction(connection: Connection[Row]) -> Iterator[Cursor[Row]]:
    """A transaction that commits at the end of the block. After an error the connection is rolled back, or closed."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(BEGIN)
            yield cursor
            cursor.execute("COMMIT")
            # After an error that somebody swallowed, COMMIT rolls back and reports no error.
            assert cursor.statusmessage == "COMMIT", cursor.statusmessage
    except BaseException:
        with suppress(psycopg.Error):
            if connection.pgconn.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
                connection.execute("ROLLBACK")
        if connection.pgconn.transaction_status is not TransactionStatus.IDLE:
            connection.close()
        raise


class Session:
    """The driver's one connection, made when it is needed and again after it broke."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._connection: Connection[Row] | None = None
        self._process: int | None = None  # the server process of the last connection

    def open(self, application: str) -> None:
        """Connect now. A refused log-in is a mistake here; later on it may pass, and is waited for."""
        self.close()
        self.options = replace(self.options, application=application)
        try:
            self._connection = self.options.connect()
        except psycopg.OperationalError as error:
            if error.pgconn is not None and (error.pgconn.used_password or error.pgconn.needs_password):
                raise TargetUnusable(
                    f"{self.options.place} refuses the log-in: {described(error)}; check user, password (in the dsn, "
                    "in PGPASSWORD or in the password file) and database"
                ) from None
            raise self._unreachable(error) from None
        self._process = self._connection.info.backend_pid

    def run(self, doing: str, step: Callable[[Cursor[Row]], T], *, blame_rows: bool = False) -> T:
        """One transaction. If the connection breaks it is run once more, so `step` has to be repeatable."""
        try:
            with transaction(self.connection()) as cursor:
                return step(cursor)
        except psycopg.Error as error:
            if self.connected:
                raise named(error, doing, blame_rows=blame_rows) from error
        try:
            with transaction(self.connection()) as cursor:
                return step(cursor)
        except psycopg.Error as error:
            raise named(error, doing, blame_rows=blame_rows) from error

    def connection(self) -> Connection[Row]:
        """The connection; a new one if it broke."""
        if self._connection is None or self._connection.closed:
            try:
                self._connection = self.options.connect()
                self._end_predecessor(self._connection)
            except psycopg.OperationalError as error:
                raise self._unreachable(error) from None
        return self._connection

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.closed

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _end_predecessor(self, connection: Connection[Row]) -> None:
        """A lost connection's server process may still be at work, on a COMMIT even: end it, then look what it did."""
        if self._process is not None:
            connection.execute(
                "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity "
                "WHERE pid = %s AND application_name = %s AND datname = current_database() AND usename = current_user "
                "AND pid <> pg_backend_pid()",
                (TERMINATE_MS, self._process, self.options.application),
            )
        self._process = connection.info.backend_pid

    def _unreachable(self, error: psycopg.Error) -> SinkUnreachable:
        return SinkUnreachable(f"{self.options.place} cannot be reached: {described(error)}")
