"""The PostgreSQL sink: rows are staged by COPY, and one transaction moves them and writes the marker."""

from onceward.errors import DependencyMissing

try:
    import psycopg as psycopg
except ImportError as error:  # also where psycopg is there and finds no libpq
    raise DependencyMissing(
        f"PostgresSink needs psycopg 3, which cannot be imported ({error}): pip install 'onceward[postgres]'"
    ) from error

from onceward.sinks.postgres.sink import PostgresSink

__all__ = ["PostgresSink"]
