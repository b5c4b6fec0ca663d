"""Databases of a test's own in a shared PostgreSQL, and a role that needs a password."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import psycopg

from onceward.servers.postgres import PostgresServer

PASSWORD = "s3cret-Pa55"  # of the role `locked`; every other role is let in without one
LOCKED = f"CREATE ROLE locked LOGIN PASSWORD '{PASSWORD}'"
ACCESS = """
host all locked 127.0.0.1/32 scram-sha-256
host all all 127.0.0.1/32 trust
"""


@contextmanager
def away(server: PostgresServer) -> Iterator[None]:
    """Without the server for a while. It is there again afterwards, for the tests that follow too."""
    server.stop()
    try:
        yield
    finally:
        server.start()


@dataclass(frozen=True)
class Database:
    """A database of a test's own."""

    server: PostgresServer
    name: str

    @classmethod
    def new(cls, server: PostgresServer) -> Self:
        made = cls(server, f"db_{uuid.uuid4().hex[:12]}")
        made.admin(f"CREATE DATABASE {made.name}", "postgres")
        return made

    def dsn(self, **options: object) -> str:
        """To connect as `postgres`, unless told otherwise."""
        parts = {"host": "127.0.0.1", "port": self.server.port, "user": "postgres", "dbname": self.name, **options}
        return " ".join(f"{name}={value}" for name, value in parts.items())

    def connect(self) -> psycopg.Connection[Any]:
        return self.server.connect(self.name)

    def admin(self, statement: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run a statement as superuser; its rows, if it has some."""
        with self.server.connect(database or self.name) as connection:
            cursor = connection.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def column(self, statement: str) -> list[Any]:
        """The first column of a query."""
        return [row[0] for row in self.admin(statement)]

    def staged(self, schema: str = "onceward") -> list[str]:
        """The staging tables that are there now."""
        return self.column(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}' AND tablename <> 'markers'")

    def backup(self, *tables: str) -> Callable[[], None]:
        """Copies of tables; what this returns puts their rows back, in one transaction."""
        kept = f"backup_{uuid.uuid4().hex[:8]}"
        self.admin(f"CREATE SCHEMA {kept}")
        for number, table in enumerate(tables):
            self.admin(f"CREATE TABLE {kept}.copy_{number} AS TABLE {table}")

        def restore() -> None:
            with self.connect() as connection, connection.transaction():
                for number, table in enumerate(tables):
                    connection.execute(f"DELETE FROM {table}")  # type: ignore[call-overload]
                    connection.execute(f"INSERT INTO {table} TABLE {kept}.copy_{number}")  # type: ignore[call-overload]

        return restore

    def drop(self) -> None:
        self.admin(f"DROP DATABASE {self.name} WITH (FORCE)", "postgres")
