"""Processes as the system shows them: who belongs together, who lives, who sleeps. For those who kill on purpose."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path


def session(leader: int) -> set[int]:
    """The living processes of a session: they stay in it when their parent dies.

    A process group would not do: Spark's Python daemon makes a group of its own.
    """
    return {pid for pid in living() if _session_of(pid) == leader}


def family(root: int) -> list[int]:
    """A process and all its descendants, parents first."""
    parents = {pid: parent for pid in living() if (parent := _parent_of(pid)) is not None}
    found, todo = [root], [root]
    while todo:
        mother = todo.pop()
        children = [pid for pid, parent in parents.items() if parent == mother]
        found += children
        todo += children
    return found


def living() -> set[int]:
    """Every process; one that has ended and waits to be reaped does not count."""
    if sys.platform == "linux":
        return {int(it.name) for it in Path("/proc").iterdir() if it.name.isdigit() and state(int(it.name)) not in "ZX"}
    return {int(pid) for pid, _, state in _listed() if not state.startswith("Z")}


def state(pid: int) -> str:
    """R, S, T (stopped), Z, ...; X if there is no such process."""
    if sys.platform == "linux":
        return (_stat(pid) or ["X"])[0]
    return next((state[0] for other, _, state in _listed() if int(other) == pid), "X")


def command(pid: int) -> str:
    """Its command line; empty if it has ended."""
    if sys.platform == "linux":
        try:
            return Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace").replace("\0", " ")
        except OSError:
            return ""
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout


def machine() -> str:
    """One boot of one kernel, and one process namespace: containers on a host do not share pids; "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def started(pid: int) -> str:
    """The start time in /proc tells a process from a later one with the same number; "" if there is none."""
    fields = _stat(pid)
    return "" if not fields or fields[0] in "ZX" else fields[19]


def is_gone(pid: int, start: str) -> bool:
    """Whether the process of that number and start time has ended: certain, or no.

    What /proc does not tell (too many open files, other users' processes hidden) is no proof.
    """
    if pid <= 0:  # as a forged file may say: these are groups of processes, and none in particular
        return False
    with suppress(PermissionError, OverflowError):  # it is there, and somebody else's; or no number of a process
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
    fields = _stat(pid)
    return bool(fields) and (fields[0] in "ZX" or fields[19] != start)


def send(pids: set[int] | list[int], number: signal.Signals) -> None:
    """To each that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def _parent_of(pid: int) -> int | None:
    if sys.platform == "linux":
        fields = _stat(pid)
        return int(fields[1]) if fields else None
    return next((int(parent) for other, parent, _ in _listed() if int(other) == pid), None)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, group, session, ..."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _listed() -> list[tuple[str, str, str]]:
    shown = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,state="], capture_output=True, text=True, check=True)
    rows = (line.split() for line in shown.stdout.splitlines())
    return [(pid, parent, state) for pid, parent, state, *_ in rows]
