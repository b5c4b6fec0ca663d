"""The lease of this process on a home: who it is, whether another holder is still there, and keeping it alive."""

import logging
import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from onceward.epoch.term import RENEW_S, Holder, Term
from onceward.errors import PipelineFenced

log = logging.getLogger("onceward.pipeline")


class LeaseKeeper:
    """Moves the lease's counter from a thread of its own, from the claim to the release."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._needed: Callable[[], bool] = lambda: True
        self._overtaken: Callable[[PipelineFenced], None] = lambda _: None
        self._beside: Callable[[], None] = lambda: None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"onceward-lease-{term.number}", daemon=True)
        self._thread.start()

    def keep_while(
        self, needed: Callable[[], bool], *, overtaken: Callable[[PipelineFenced], None], beside: Callable[[], None]
    ) -> None:
        """Let go as soon as it is not needed: a query that failed frees its home, though nobody has asked yet.

        overtaken: told once, when a newer driver has taken the home. beside: called after each renewal.
        """
        self._overtaken, self._beside = overtaken, beside
        self._needed = needed

    def release(self) -> None:
        """Let go at once, so that the next start need not wait."""
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._term.release()

    def _keep(self) -> None:
        while not self._over.wait(RENEW_S):
            try:
                if not self._needed():
                    self._term.release()
                    return
                self._term.renew()
                self._term.require_current()
                self._beside()
            except PipelineFenced as fenced:
                self._overtaken(fenced)
                return
            except Exception as error:  # noqa: BLE001 - it says so, and tries again: an epoch asks the term itself
                log.warning(
                    "the lease of term %d could not be renewed and is tried again: %s", self._term.number, error
                )


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
