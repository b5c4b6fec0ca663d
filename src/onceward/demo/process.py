"""The job's process and everything it starts: the JVM, Spark's Python daemon, its workers.

They share one session. A process group would not do: Spark's Python daemon makes a group of its own.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from onceward import processes
from onceward.errors import OncewardError

POLL_S: Final = 0.02
KILL_TIMEOUT_S: Final = 20.0
STOP_TIMEOUT_S: Final = 60.0  # it finishes its epoch, then Spark's JVM ends
LOG_TAIL_LINES: Final = 40


class DemoFailed(OncewardError):
    """The demo could not be carried through; nothing is said about the guarantee."""


class JobProcess:
    """One run of the job. As a context manager it leaves nothing behind."""

    def __init__(self, folder: Path, servers: Mapping[str, str], arguments: Iterable[str] = ()) -> None:
        """`servers`: environment variables that say where Kafka and PostgreSQL are."""
        self.log = folder / "job.log"
        litter = folder / "tmp"
        litter.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "onceward.demo.job", "--folder", str(folder), *arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **servers, "TMPDIR": str(litter)},
                stdin=subprocess.PIPE,  # held open by us: the job ends with us
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def require_alive(self) -> None:
        """Nobody but us may end it: a job that dies by itself has failed."""
        code = self._process.poll()
        if code is not None:
            raise DemoFailed(
                f"the job ended by itself (exit code {code}): the demo had not killed it. {self.log_tail()}"
            )

    def kill(self) -> None:
        """SIGKILL to all of it at once, as a power cut would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # first: to look for the rest takes longer than a commit
        deadline = time.monotonic() + KILL_TIMEOUT_S
        while members := processes.session(self._process.pid):
            if time.monotonic() > deadline:
                raise DemoFailed(f"processes of the job do not end, not even after SIGKILL: {sorted(members)}")
            for pid in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S)
        self._reap()

    def stop(self) -> None:
        """SIGTERM: the running epoch is finished."""
        self._process.terminate()
        try:
            code = self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise DemoFailed(
                f"the job did not stop within {STOP_TIMEOUT_S:.0f} s of SIGTERM. {self.log_tail()}"
            ) from None
        if code != 0:
            raise DemoFailed(f"the job did not stop cleanly (exit code {code}). {self.log_tail()}")
        self.kill()

    def log_tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return f"The end of {self.log}:\n" + "\n".join(f"  {line}" for line in lines)

    def _reap(self) -> None:
        self._process.wait(KILL_TIMEOUT_S)
        if self._process.stdin is not None:
            self._process.stdin.close()
