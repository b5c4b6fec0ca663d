"""PostgreSQL's errors by SQLSTATE, never by text: which of them pass, and what they say."""

from typing import Final

import psycopg

# Passing: connection (08), resources (53), intervention such as a shutdown or a cancelled statement (57), the system's
# own input and output (58); a serialisation failure, a deadlock, a lock that was not to be had, a transaction that was
# idle for too long, a server that is read-only while another takes over.
PASSING_CLASSES: Final = frozenset({"08", "53", "57", "58"})
PASSING: Final = frozenset({"40001", "40003", "40P01", "55P03", "55006", "25006", "25P03"})
READ_ONLY: Final = "25006"


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
