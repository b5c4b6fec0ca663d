"""`onceward run` in a process of its own, to be killed, paused and restarted."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onceward import processes
from support.waiting import DEADLINE_S


@dataclass
class Driver:
    """`onceward run` in a process of its own, which tests kill, pause and restart."""

    file: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None
    environment: Mapping[str, str] | None = None  # the test's own, unless told otherwise

    def start(self, *arguments: str, **environment: str) -> "Driver":
        assert self.process is None or self.process.poll() is not None
        self._litter.mkdir(exist_ok=True)
        base = os.environ if self.environment is None else self.environment
        here = {
            "JAVA_TOOL_OPTIONS": f"{base.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={self._litter}".strip(),
            "SPARK_LOCAL_DIRS": str(self._litter),
            "TMPDIR": str(self._litter),
        }
        with self.log.open("ab") as log, self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "onceward", "run", str(self.file), *arguments],
                stdout=out,
                stderr=log,
                env={**base, **here, **environment},
                start_new_session=True,
            )
        return self

    @property
    def _litter(self) -> Path:
        """A killed JVM leaves libraries and folders behind, some 20 MB each time."""
        return self.log.with_suffix(".litter")

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
        shutil.rmtree(self._litter, ignore_errors=True)

    def kill_after(self, seconds: float) -> None:
        """At a random moment: the one place where a time is what is wanted."""
        time.sleep(seconds)
        self.kill()

    def kill_descendant(self, command: str) -> None:
        """SIGKILL to the first descendant whose command line has this text."""
        for pid in processes.family(self.running.pid):
            if command in processes.command(pid):
                os.kill(pid, signal.SIGKILL)
                return
        raise AssertionError(f"no {command} below {self.running.pid}")

    def signal_all(self, number: int) -> None:
        """Also to workers, which Spark puts into sessions of their own."""
        pid = self.running.pid
        processes.send({*processes.family(pid), *processes.session(pid)}, signal.Signals(number))

    def alive(self) -> bool:
        """True, or an AssertionError with its last words: nobody need wait for what a dead one will never do."""
        assert self.running.poll() is None, f"exit {self.running.returncode}\n{self.text()[-4000:]}"
        return True

    def wait(self, deadline_s: float = DEADLINE_S) -> int:
        return self.running.wait(deadline_s)

    def finish(self) -> dict[str, object]:
        """SIGTERM, a clean end, and what it says."""
        self.running.terminate()
        found = self.result()
        assert found["ended"] == "SIGTERM"
        return found

    def result(self) -> dict[str, object]:
        code = self.wait()
        assert code == 0, f"exit {code}\n{self.text()[-4000:]}"
        found: dict[str, object] = json.loads(self._out.read_text().splitlines()[-1])
        return found

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")
