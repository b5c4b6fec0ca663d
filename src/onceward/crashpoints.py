"""Named places where a process dies on purpose, so that tests can kill it exactly there.

Off unless the environment variable ONCEWARD_CRASH_AT names a point, as `name` or `name@epoch`; with `#2` behind it,
the second time that this process gets there.
ONCEWARD_CRASH_ONCE names a file: the process dies only if it can make it, so just once over all restarts.
ONCEWARD_CRASH_SIGNAL=SIGSTOP pauses instead of killing, to make a zombie.
The names are the steps of an epoch's life (ARCHITECTURE.md).
"""

import os
import signal
import threading
from typing import Final

VARIABLE: Final = "ONCEWARD_CRASH_AT"
ONCE: Final = "ONCEWARD_CRASH_ONCE"
SIGNAL: Final = "ONCEWARD_CRASH_SIGNAL"
POINTS: Final = (
    "fenced",  # recovery: Kafka has given us a new identity, its marker is not read yet
    "resolving",  # recovery: a decided epoch was found that is not visible everywhere; nothing is done yet
    "recovered",  # recovery: all is resolved, the query has not started
    "begun",  # the epoch is open in every sink, nothing is written
    "writing",  # some rows are written, others not yet
    "task-writing",  # the same, in a Python worker of Spark: the worker dies, not the driver
    "written",  # every sink has all rows, none has voted
    "voted",  # a sink has pre-committed; reached once for each sink
    "prepared",  # the votes are in the ledger, the deciding sink is not asked yet
    "marked",  # Kafka: the marker is in the transaction, EndTxn is not sent
    "decided",  # the decision is durable, no other sink has committed
    "committed",  # a sink has committed after the decision; reached once for each
    "recorded",  # the ledger has the epoch as done, Spark's commit log does not
    "replaying",  # a replay of a committed epoch has run its state, nothing is compared yet
)
# Not every job comes to these, so they are apart: the order of the others is part of what a seed of a proof means.
WITH_A_LOOKUP: Final = (
    "looked-up",  # what the epoch looked up is kept in the home, no sink has begun
)
OF_RESTORES: Final = (
    "restore-copied",  # the savepoint's files are in the home, the old lineage counts
    "restore-rescaled",  # and have as many partitions as wanted, or the wanted backend
    "restore-ready",  # all is there and synced; the old lineage still counts
    "restore-begun",  # the new lineage counts, no sink knows of it yet
)
OF_RESETS: Final = (
    "reset-ready",  # the positions to begin with are there and synced; the old lineage still counts
    "reset-begun",  # the new lineage counts, no sink knows of it yet
)
OF_SAVEPOINTS: Final = (
    "savepoint-pinned",  # all files of the epoch are pinned, nothing is copied
    "savepoint-copied",  # all are copied and synced, the manifest is not written
    "savepoint-sealed",  # the manifest is there, the directory has not got its name
    "savepoint-deleting",  # the directory has lost its name, its files are there
)
OF_SNAPSHOTS: Final = (
    "snapshot-pinned",  # the epochs of the cut are pinned in every home, nothing is copied
    "snapshot-copied",  # every savepoint is there, the manifest is not
    "snapshot-sealed",  # the manifest is there, the directory has not got its name
    "snapshot-deleting",  # the directory has lost its name, its files are there
    "snapshot-filled",  # restoring a copy: its topics hold what was on its way, no pipeline has begun
)

_passed = 0


def armed(point: str, epoch: int | None = None) -> bool:
    """Is this the named point?"""
    wanted = os.environ.get(VARIABLE, "").partition("#")[0]
    return bool(wanted) and wanted in (point, f"{point}@{epoch}")


def reach(point: str, epoch: int | None = None) -> None:
    """Die (or pause) if this is the named point."""
    if armed(point, epoch) and _often_enough() and _first_time():
        # To this thread: a SIGSTOP for the process may be taken by another, and this one would run on until then.
        signal.pthread_kill(threading.get_ident(), signal.Signals[os.environ.get(SIGNAL, "SIGKILL")])


def arm(point: str) -> None:
    """In this process, from now on, and counted from now on; nothing: nowhere."""
    global _passed
    os.environ[VARIABLE], _passed = point, 0


def _often_enough() -> bool:
    global _passed  # noqa: PLW0603 - one process, one count
    _passed += 1
    return _passed == int(os.environ.get(VARIABLE, "").partition("#")[2] or _passed)


def _first_time() -> bool:
    if (name := os.environ.get(ONCE)) is None:
        return True
    try:
        os.close(os.open(name, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True
