"""What may leave for other systems: no secret, and of an error no row and no value of the user's data.

Everything that telemetry sends, logs as JSON or writes for others goes through here. An error leaves as its class and
the beginning of its first line, up to where the text of somebody else begins (a user's exception, Spark's, a
database's): we put that behind a colon. Whoever is at the terminal, or catches the error, has it whole.
"""

import builtins
import re
import traceback
from types import TracebackType
from typing import Any, Final

from onceward import errors
from onceward.secret import without_secrets

LONGEST: Final = 300
_OURS: Final = frozenset(
    {name for name, it in vars(errors).items() if isinstance(it, type) and issubclass(it, errors.OncewardError)}
    | {name for name, it in vars(builtins).items() if isinstance(it, type) and issubclass(it, OSError)}
)
_CLASS: Final = re.compile(r"[A-Za-z_$][\w.$]*(?:Error|Exception)")
_CONDITION: Final = re.compile(r"\[[A-Z][A-Z0-9_.]*\]")  # Spark's name of what is wrong
_STATE: Final = re.compile(r"\(SQLSTATE \w{5}\)")
_PARTITION: Final = re.compile(r"(/[^/\s=]+=)[^/\s'\"]+")  # a directory of a file sink, which has a value in its name


def outward(value: Any) -> Any:
    """The same without secrets, at any depth."""
    return without_secrets(value)


def error_outward(error: BaseException | str) -> str:
    """In one short line: its class, and what we say of it ourselves. Of a text its first word may be the class."""
    text = f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error
    line = text.strip().partition("\n")[0].removesuffix(":")
    parts = line.split(": ")
    kept = 2 if parts[0] in _OURS else 1
    while kept < len(parts) and (parts[kept] in _OURS or _CLASS.fullmatch(parts[kept])):
        kept += 1
    told = ": ".join(parts[:kept])
    if kept < len(parts):
        found = [_CONDITION.match(parts[kept]), _STATE.search(line)]
        told = " ".join([f"{told}:" if found[0] else told, *(it[0] for it in found if it is not None)])
    return str(without_secrets(_PARTITION.sub(r"\1…", told)))[:LONGEST]


def waiting_outward(text: str) -> str:
    """What is waited for, or which step of an epoch: `sink 'a': PostgreSQL cannot be reached: …` without the end."""
    what, colon, reason = text.partition(": ")
    return f"{outward(what)}{colon}{error_outward(reason)}"


def traceback_outward(error: BaseException, frames: TracebackType | None) -> str:
    """Where it was raised, from the first cause on; the source lines, and no texts of exceptions."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = f"{traceback_outward(cause, cause.__traceback__)}\n\n" if cause is not None else ""
    return f"{before}{''.join(traceback.format_tb(frames))}{error_outward(error)}"
