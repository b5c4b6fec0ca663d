"""PostgreSQL's errors in our words: by SQLSTATE, never by text. What can pass is `SinkUnreachable`: tried again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from onceward.errors import InvalidRows, OncewardError, SinkUnreachable, TargetUnusable

# Passing: connection (08), resources (53), intervention such as a shutdown or a cancelled statement (57), the system's
# own input and output (58); a serialisation failure, a deadlock, a lock that was not to be had, a transaction that was
# idle for too long, a server that is read-only while another takes over.
PASSING_CLASSES: Final = frozenset({"08", "53", "57", "58"})
PASSING: Final = frozenset({"40001", "40003", "40P01", "55P03", "55006", "25006", "25P03"})
READ_ONLY: Final = "25006"
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


def is_passing(error: psycopg.Error) -> bool:
    """An error of libpq's own has no SQLSTATE: the connection failed or broke."""
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state[:2] in PASSING_CLASSES or state in PASSING


def described(error: psycopg.Error) -> str:
    """What the server says, in one line. It never holds a password: servers do not repeat them."""
    diag = error.diag
    parts = [diag.message_primary or str(error), diag.message_detail, diag.context, diag.message_hint]
    text = "; ".join(" ".join(part.split()) for part in parts if part)
    return f"{text} (SQLSTATE {error.sqlstate})" if error.sqlstate else text
