"""`onceward run` in a process of its own, to be killed, paused and restarted."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from support.waiting import DEADLINE_S

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # it dies soon: no time for the optimising compiler


@dataclass
class Driver:
    """`onceward run` in a process of its own, which tests kill, pause and restart."""

    file: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, **environment: str) -> "Driver":
        assert self.process is None or self.process.poll() is not None
        with self.log.open("ab") as log, self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "onceward", "run", str(self.file), *arguments],
                stdout=out,
                stderr=log,
                env={**os.environ, "JAVA_TOOL_OPTIONS": QUICK_JVM, **environment},
                start_new_session=True,
            )
        return self

    @property
    def _out(self) -> Path:
        return self.log.with_suffix(".out")

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def kill(self) -> None:
        """SIGKILL to everything: driver, JVM, Python workers. A dead driver's JVM may still be about."""
        self.signal_all(signal.SIGKILL)
        self.running.wait(30)

    def kill_after(self, seconds: float) -> None:
        """At a random moment: the one place where a time is what is wanted."""
        time.sleep(seconds)
        self.kill()

    def kill_descendant(self, command: str) -> None:
        """SIGKILL to the first descendant whose command line has this text."""
        for pid in family(self.running.pid):
            if command in Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace"):
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"no {command} below {self.running.pid}")

    def signal_all(self, number: int) -> None:
        """Also to workers, which Spark puts into sessions of their own."""
        for pid in {*family(self.running.pid), *session_of(self.running.pid)}:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        return self.running.wait(deadline_s)

    def finish(self) -> dict[str, object]:
        """SIGTERM, a clean end, and what it says."""
        self.running.terminate()
        return self.result()

    def result(self) -> dict[str, object]:
        code = self.wait()
        assert code == 0, f"exit {code}\n{self.text()[-4000:]}"
        found: dict[str, object] = json.loads(self._out.read_text().splitlines()[-1])
        return found

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent, group, session, ...; empty if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []


def _all() -> dict[int, list[str]]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return {pid: stat for pid in pids if (stat := _stat(pid))}


def state_of(pid: int) -> str:
    """R, S, T (stopped), Z ...; empty if there is no such process."""
    return (_stat(pid) or [""])[0]


def session_of(leader: int) -> list[int]:
    """Every process of a session: they stay in it when their parent dies."""
    return [pid for pid, stat in _all().items() if int(stat[3]) == leader]


def family(root: int) -> list[int]:
    """A process and all its descendants."""
    everyone = _all()
    found, todo = [root], [root]
    while todo:
        parent = todo.pop()
        children = [pid for pid, stat in everyone.items() if int(stat[1]) == parent]
        found += children
        todo += children
    return found
