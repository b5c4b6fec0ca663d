"""`onceward run` in a process of its own, to be killed, paused and restarted."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from support.waiting import DEADLINE_S


@dataclass
class Driver:
    """`onceward run` in a process of its own, which tests kill, pause and restart."""

    file: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, **environment: str) -> "Driver":
        assert self.process is None or self.process.poll() is not None
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "onceward", "run", str(self.file), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **environment},
                start_new_session=True,
            )
        return self

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self.process is not None
        return self.process

    def kill(self) -> None:
        """SIGKILL to everything: driver, JVM, Python workers."""
        self.signal_all(signal.SIGKILL)
        self.running.wait(30)

    def signal_all(self, number: int) -> None:
        """Also to workers, which Spark puts into sessions of their own."""
        for pid in _family(self.running.pid):
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
        out, _ = self.running.communicate(timeout=DEADLINE_S)
        assert self.running.returncode == 0, f"exit {self.running.returncode}\n{self.text()[-4000:]}"
        found: dict[str, object] = json.loads(out.decode().splitlines()[-1])
        return found

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")


def _family(root: int) -> list[int]:
    """A process and all its descendants."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text("utf-8", "replace")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, todo = [root], [root]
    while todo:
        parent = todo.pop()
        children = [pid for pid, ppid in parents.items() if ppid == parent]
        found += children
        todo += children
    return found
