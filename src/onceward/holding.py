"""This process as the holder of something, and whether another holder is provably gone.

Only a process of this very machine, boot and process namespace can be seen to be gone. Of any other nobody can say so:
it may be slow, or cut off. What it holds is taken from it only where a fence stands behind it (the lease of a term), or
by a person.
"""

import os
import socket
from datetime import UTC, datetime

from onceward import processes
from onceward.epoch.term import Holder


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
    return processes.started(holder.pid) != holder.process_start
