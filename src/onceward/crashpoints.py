"""Named places where a process dies on purpose, so that tests can kill it exactly there.

Off unless the environment variable ONCEWARD_CRASH_AT names a point, as `name` or `name@epoch`.
ONCEWARD_CRASH_ONCE names a file: the process dies only if it can make it, so just once over all restarts.
ONCEWARD_CRASH_SIGNAL=SIGSTOP pauses instead of killing, to make a zombie.
The names are the steps of an epoch's life (ARCHITECTURE.md).
"""

import os
import signal
from typing import Final

VARIABLE: Final = "ONCEWARD_CRASH_AT"
ONCE: Final = "ONCEWARD_CRASH_ONCE"
SIGNAL: Final = "ONCEWARD_CRASH_SIGNAL"
POINTS: Final = (
    "fenced",  # recovery: a new identity is ours, the marker is not read yet
    "recovered",  # recovery: the marker is read, the query has not started
    "begun",  # the epoch is open, nothing is written
    "writing",  # some records are acknowledged, others not yet sent
    "task-writing",  # the same, in a Python worker of Spark: the worker dies, not the driver
    "written",  # the last acknowledgement is in, no marker yet
    "marked",  # the marker is in the transaction, EndTxn is not sent
    "committed",  # EndTxn is answered, the ledger knows nothing
    "recorded",  # the ledger has the epoch, Spark's commit log does not
    "replaying",  # a replay of a committed epoch has run its state, nothing is compared yet
)


def armed(point: str, epoch: int | None = None) -> bool:
    """Is this the named point?"""
    wanted = os.environ.get(VARIABLE)
    return bool(wanted) and wanted in (point, f"{point}@{epoch}")


def reach(point: str, epoch: int | None = None) -> None:
    """Die (or pause) if this is the named point."""
    if armed(point, epoch) and _first_time():
        os.kill(os.getpid(), signal.Signals[os.environ.get(SIGNAL, "SIGKILL")])


def _first_time() -> bool:
    if (name := os.environ.get(ONCE)) is None:
        return True
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
