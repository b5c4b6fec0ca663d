"""Lookups in PostgreSQL: every query in one read-only snapshot."""

from onceward.errors import DependencyMissing

try:
    import psycopg as psycopg
except ImportError as error:  # also where psycopg is there and finds no libpq
    raise DependencyMissing(
        f"PostgresLookup needs psycopg 3, which cannot be imported ({error}): pip install 'onceward[postgres]'"
    ) from error

from onceward.lookups.postgres.lookup import PostgresLookup

__all__ = ["PostgresLookup"]
