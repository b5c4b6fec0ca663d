"""A broker's process: started apart from us, known by its pid and its start time.

A pid alone names nobody: after a crash or a reboot it may belong to a stranger.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class BrokerProcess:
    pid: int
    started: str

    @classmethod
    def spawn(cls, command: list[str], *, log: Path) -> Self:
        """A process in a session of its own, so that it outlives the command that starts it.

        Not subprocess.Popen, which complains when it is collected before its child has ended.
        """
        pid = os.posix_spawn(
            command[0],
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
                *_closing(),
            ],
            setsid=True,
        )
        return cls(pid, start_time(pid) or "gone")

    @classmethod
    def read(cls, pid_file: Path) -> Self | None:
        """Whom the file names, unless that process has ended or the pid is somebody else's by now."""
        try:
            process = cls(**json.loads(pid_file.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return process if process.alive() else None

    def write(self, pid_file: Path) -> None:
        fresh = pid_file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(self)), encoding="ascii")
        fresh.replace(pid_file)

    def alive(self) -> bool:
        with contextlib.suppress(ChildProcessError):  # it is no child of ours: its parent has to reap it
            os.waitpid(self.pid, os.WNOHANG)
        return start_time(self.pid) == self.started

    def paused(self) -> bool:
        """Whether every thread of it has stopped."""
        return self.alive() and all(state.startswith("T") for state in _states(self.pid))

    def send(self, number: signal.Signals) -> None:
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


def _closing() -> list[tuple[int, int]]:
    """For a process that outlives us: what our caller has handed to us, a lock or a pipe, must not stay open in it."""
    ours = (int(name) for name in os.listdir("/dev/fd") if int(name) > 2)  # noqa: PTH208 - they are numbers
    return [(os.POSIX_SPAWN_CLOSE, number) for number in ours if _is_inherited(number)]


def _is_inherited(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # that of the listing itself
        return False


def start_time(pid: int) -> str | None:
    """When the process began, as a word to compare; None if it has ended (also when nobody reaped it)."""
    if sys.platform == "linux":
        fields = _stat_fields(pid)
        if not fields or fields[0] in "ZX":
            return None
        return f"{BOOT_ID.read_text().strip()}/{fields[19]}"
    answer = _ps(pid, "lstart=")
    return None if not answer or _ps(pid, "state=").startswith("Z") else answer


def _states(pid: int) -> list[str]:
    """Of its threads, where the system tells them apart."""
    if sys.platform != "linux":
        return [_ps(pid, "state=")]
    stats = [_stat_fields(f"{pid}/task/{task.name}") for task in Path(f"/proc/{pid}/task").glob("*")]
    return [fields[0] for fields in stats if fields] or ["X"]


def _stat_fields(pid: int | str) -> list[str]:
    """Fields 3 and on of /proc/PID/stat; the second is a name that may hold blanks and brackets."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return []
    return stat.rpartition(")")[2].split()


def _ps(pid: int, column: str) -> str:
    answer = subprocess.run(
        ["ps", "-o", column, "-p", str(pid)], capture_output=True, text=True, check=False, timeout=10
    )
    return answer.stdout.strip()


class Watchdog:
    """Kills a broker when the Python process that owns it is gone, even after kill -9.

    A shell waits on a pipe whose other end only we hold; the kernel closes that end with us. PR_SET_PDEATHSIG
    would be shorter, but it fires when the *thread* that forked ends, and a test may restart a broker in one.
    """

    def __init__(self, broker: BrokerProcess) -> None:
        reading, self._writing = os.pipe()
        try:
            self._pid = os.posix_spawn(
                "/bin/sh",
                ["sh", "-c", 'read _ || kill -9 "$1"', "watchdog", str(broker.pid)],
                os.environ,
                file_actions=[(os.POSIX_SPAWN_DUP2, reading, 0), *_closing()],
                setsid=True,
            )
        finally:
            os.close(reading)

    def dismiss(self) -> None:
        """Let go without a kill: the pid may be a stranger's soon."""
        with contextlib.suppress(OSError):
            os.write(self._writing, b"\n")
        os.close(self._writing)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
