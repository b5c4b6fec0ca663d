"""One life of the job's process, with everything it starts: the JVM, executors, Spark's Python daemon, its workers."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onceward import crashpoints, processes
from onceward.proof.chaos.places import VARIABLE, Places, ProofFailed

POLL_S: Final = 0.02
KILL_TIMEOUT_S: Final = 20.0
_ENDED: Final = re.compile(r"^ENDED (\w+): (.*)$", re.MULTILINE)
WORKER: Final = "pyspark.daemon"
UNEXPLAINED: Final = "Unexplained"
AWAY: Final = "org.apache.kafka.common.errors.TimeoutException"
EXECUTOR: Final = "CoarseGrainedExecutorBackend"


class Driver:
    """A process that runs the job until something ends it."""

    def __init__(
        self,
        number: int,
        places: Places,
        file: Path | None,
        logs: Path,
        *,
        crash_at: str = "",
        asleep: bool = False,
        cluster: bool = False,
        take_over: bool = False,
    ) -> None:
        """`crash_at`: die (or, `asleep`, stop) at a named point. `cluster`: executors are processes of their own."""
        self.number = number
        self.log = logs / f"driver-{number:04d}.log"
        self._reached = logs / f"driver-{number:04d}.reached"
        self.crash_at = crash_at
        command = [sys.executable, "-m", "onceward.proof.chaos.job"]
        command += [] if file is None else [str(file)]
        command += ["--master", "local-cluster[2,1,1024]"] if cluster else []
        command += ["--take-over"] if take_over else []
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **self._environment(places, asleep=asleep)},
                stdin=subprocess.PIPE,  # held open by us: the job ends with us
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.began = time.monotonic()
        self.paused = False

    def _environment(self, places: Places, *, asleep: bool) -> Mapping[str, str]:
        found = {VARIABLE: places.text, "TMPDIR": str(self.log.parent)}
        if self.crash_at:
            found |= {crashpoints.VARIABLE: self.crash_at, crashpoints.ONCE: str(self._reached)}
        if asleep:
            found[crashpoints.SIGNAL] = "SIGSTOP"
        return found

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def reached(self) -> bool:
        """It (or one of its workers) got to the point where it was told to die or sleep."""
        return self._reached.exists()

    @property
    def asleep(self) -> bool:
        return processes.state(self.pid) == "T"

    def workers(self) -> list[int]:
        """Python workers of Spark: children of its daemons."""
        daemons = [pid for pid in self.members if WORKER in processes.command(pid)]
        return [pid for daemon in daemons for pid in processes.family(daemon)[1:]]

    def executors(self) -> list[int]:
        """On a cluster: the JVMs that run tasks."""
        return [pid for pid in self.members if EXECUTOR in processes.command(pid)]

    def pause(self) -> None:
        """SIGSTOP to all of it: what a machine that hangs looks like."""
        processes.send(self.members, signal.SIGSTOP)
        self.paused = True

    def resume(self) -> None:
        processes.send(self.members, signal.SIGCONT)
        self.paused = False

    def kill(self) -> None:
        """SIGKILL to the driver alone. Its JVM notices by itself, a little later."""
        processes.send([self.pid], signal.SIGKILL)
        self._process.wait(KILL_TIMEOUT_S)

    def clear(self) -> None:
        """SIGKILL to whatever is left of it."""
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while members := self.members:
            if time.monotonic() > deadline:
                raise ProofFailed(f"processes of the job do not end, not even after SIGKILL: {sorted(members)}")
            processes.send(members, signal.SIGKILL)
            time.sleep(POLL_S)
        self._process.wait(KILL_TIMEOUT_S)
        if self._process.stdin is not None:
            self._process.stdin.close()

    def terminate(self) -> None:
        """SIGTERM: it finishes the running epoch."""
        self._process.terminate()

    def ended(self) -> tuple[str, str]:
        """How: killed, finished, or the name of the error; and what it said."""
        code = self._process.poll()
        if code is None or code == -signal.SIGKILL:
            return "killed", ""
        if code == 0:
            return "finished", ""
        text = self.text()
        if found := _ENDED.search(text):
            return found[1], found[2]
        # Spark's source waits a minute for its brokers, then gives the query up.
        return (AWAY if AWAY in text else UNEXPLAINED), f"exit code {code}; {self.tail()}"

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.text().splitlines()[-lines:])

    @property
    def members(self) -> set[int]:
        """Everything that belongs to it and lives."""
        return processes.session(self.pid) | set(processes.family(self.pid)[1:])
