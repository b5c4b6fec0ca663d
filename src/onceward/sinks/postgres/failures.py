"""PostgreSQL's errors in our words: by SQLSTATE, never by text. What can pass is `SinkUnreachable`: tried again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from onceward.errors import InvalidRows, OncewardError, SinkUnreachable, TargetUnusable
from onceward.postgres.failures import READ_ONLY, described, is_passing

# Rows that do not fit: data exceptions, broken constraints, a row that an upsert would touch twice.
ROWS_CLASSES: Final = frozenset({"22", "23"})
ROWS: Final = frozenset({"21000"})
NUL: Final = "22021"


@contextmanager
def translated(doing: str, *, blame_rows: bool = False) -> Iterator[None]:
    """Raise ours for theirs. `blame_rows`: rows are being put in, and nothing has been decided about them yet."""
    try:
        yield
    except psycopg.Error as error:
        raise named(error, doing, blame_rows=blame_rows) from error


def named(error: psycopg.Error, doing: str, *, blame_rows: bool = False) -> OncewardError:
    """Which of our errors this is."""
    state = error.sqlstate
    text = f"{doing}: {described(error)}"
    if is_passing(error):
        hint = "; name every server in the dsn, with target_session_attrs=read-write" if state == READ_ONLY else ""
        return SinkUnreachable(text + hint)
    if blame_rows and state is not None and (state[:2] in ROWS_CLASSES or state in ROWS):
        hint = "; PostgreSQL's text holds no NUL characters and only valid UTF-8" if state == NUL else ""
        return InvalidRows(text + hint)
    return TargetUnusable(text)
