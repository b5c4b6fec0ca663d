"""The side of the harness: systems in processes of their own, asked to copy topics."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench import peers
from bench.machine import ROOT
from bench.rounds import Failed
from onceward import processes

ANSWER_S = 600.0
END_S = 30.0
LOG_TAIL = 1500


class WorkerFailed(Failed):
    """A system's process did not do what it was asked."""


class Worker:
    """One system's process and everything it starts; leaves nothing behind."""

    def __init__(self, system: str, bootstrap: str, folder: Path) -> None:
        self.system = system
        self.log = folder / f"{system}.log"
        command = [sys.executable, "-m", "bench.ads_job" if system.startswith("ads-") else "bench.job"]
        environment = dict(os.environ)
        if system in peers.SYSTEMS:
            peer = peers.installed()
            if peer is None:
                raise WorkerFailed(f"{system} is not installed: python -m bench.peers install")
            command, environment = peer.command(), peer.environment()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, system, "--bootstrap", bootstrap, "--folder", str(folder)],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()
        try:
            self._answer(ANSWER_S)
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **facts: object) -> dict[str, Any]:
        assert self._process.stdin is not None
        asked = {name: value for name, value in facts.items() if value is not None}
        try:
            self._process.stdin.write(f"{json.dumps({'do': do, **asked})}\n")
            self._process.stdin.flush()
        except OSError:
            raise WorkerFailed(f"{self.system} has ended. {self.log_tail()}") from None
        return self._answer(ANSWER_S)

    def close(self) -> None:
        """Its standard input ends, and it with it; if not, it is killed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(END_S)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.kill()

    def kill(self) -> None:
        """SIGKILL to all of it at once."""
        while members := processes.session(self._process.pid):
            processes.send(members, signal.SIGKILL)
            if self._process.poll() is None:
                self._process.wait(END_S)
        self._process.wait(END_S)

    def log_tail(self) -> str:
        return f"The end of its log:\n{self.log.read_text(errors='replace')[-LOG_TAIL:]}"

    def _hear(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as out:
            for line in out:
                self._answers.put(line)
        self._answers.put("")

    def _answer(self, within_s: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=within_s)
        except queue.Empty:
            raise WorkerFailed(f"{self.system} gave no answer within {within_s:.0f} s. {self.log_tail()}") from None
        if not line:
            raise WorkerFailed(f"{self.system} has ended. {self.log_tail()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise WorkerFailed(f"{self.system}: {answer['failed']}")
        return answer
