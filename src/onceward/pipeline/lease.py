"""The lease of this process on a home: who it is, whether another holder is still there, and keeping it alive."""

import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from onceward.epoch.term import RENEW_S, Holder, Term


class LeaseKeeper:
    """Moves the lease's counter from a thread of its own, from the claim to the release."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._needed: Callable[[], bool] = lambda: True
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"onceward-lease-{term.number}", daemon=True)
        self._thread.start()

    def keep_while(self, needed: Callable[[], bool]) -> None:
        """Let go as soon as it is not so: a query that failed frees its home, though nobody has looked at it yet."""
        self._needed = needed

    def release(self) -> None:
        """Let go at once, so that the next start need not wait."""
        self._over.set()
        self._thread.join()
        self._term.release()

    def _keep(self) -> None:
        while not self._over.wait(RENEW_S):
            if not self._needed():
                self._term.release()
                return
            self._term.renew()


def this_process(pipeline: str, term: int) -> Holder:
    """The holder that this process is."""
    return Holder(
        term=term,
        pipeline=pipeline,
        host=socket.gethostname(),
        machine=_machine(),
        pid=os.getpid(),
        process_start=_process_start(os.getpid()),
        since=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def is_dead(holder: Holder) -> bool:
    """Certain only for a process of this very machine and boot; anything else must let its lease run out."""
    if not holder.machine or holder.machine != _machine():
        return False
    return _process_start(holder.pid) != holder.process_start


def _machine() -> str:
    """One boot of one kernel, and one process namespace: containers on a host do not share pids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _process_start(pid: int) -> str:
    """The start time in /proc tells a process from a later one with the same number; "" if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
