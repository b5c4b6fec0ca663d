"""This process as the holder of something, and whether another holder is provably gone.

Only a process of this very machine, boot and process namespace can be seen to be gone. Of any other nobody can say so:
it may be slow, or cut off. What it holds is taken from it only where a fence stands behind it (the lease of a term), or
by a person.
"""

import os
import socket
from datetime import UTC, datetime
from pathlib import Path

from onceward import processes
from onceward.epoch import regular_file
from onceward.epoch.sealed import unseal
from onceward.epoch.term import FORMAT, Holder
from onceward.errors import OncewardError


def this_process(pipeline: str, term: int) -> Holder:
    """The holder that this process is."""
    return Holder(
        term=term,
        pipeline=pipeline,
        host=socket.gethostname(),
        machine=processes.machine(),
        pid=os.getpid(),
        process_start=processes.started(os.getpid()),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def is_gone(holder: Holder) -> bool:
    """Certain; a holder that cannot be seen from here is not gone."""
    if not holder.machine or holder.machine != processes.machine():
        return False
    return processes.is_gone(holder.pid, holder.process_start)


def is_abandoned(note: Path) -> bool:
    """Whether a file says whose something is, and that process is gone. What says nothing is nobody's to clear."""
    try:
        return is_gone(unseal(regular_file.whole(note), Holder, note.name, FORMAT))
    except (OSError, OncewardError):  # being made, gone just now, or not of ours
        return False
