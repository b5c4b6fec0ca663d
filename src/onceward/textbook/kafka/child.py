"""A real process that says where it is, waits there to be told to go on, and can be killed or put to sleep meanwhile.

The child's side is `Announcer`. It ends when its parent does: nobody is left to tell it to go on.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from onceward import processes
from onceward.errors import OncewardError
from onceward.servers.broker.process import BrokerProcess, Watchdog

DEADLINE_S: Final = 30.0  # a start takes a second on a quiet machine
POLL_S: Final = 0.005


class ChildFailed(OncewardError):
    """A process of a story did not do its part."""


class Child:
    """The parent's side: `python -m MODULE ORDER`, where the order is JSON."""

    def __init__(self, module: str, order: Mapping[str, object]) -> None:
        self._module = module
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the child
        self._heard = b""
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )
        self._watchdog: Watchdog | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._dismiss_watchdog()
        self._process.kill()  # one that has just ended is gone already
        self._process.wait(DEADLINE_S)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            assert stream is not None
            stream.close()

    def heard(self) -> dict[str, Any]:
        """The next thing that it says."""
        deadline, stream = time.monotonic() + DEADLINE_S, self._process.stdout
        assert stream is not None
        while b"\n" not in self._heard:
            readable, _, _ = select.select([stream], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(stream.fileno(), 1 << 16) if readable else b""
            if not piece:
                raise self._failure("ended" if readable else f"said nothing for {DEADLINE_S:.0f} s")
            self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        said: dict[str, Any] = json.loads(line)
        return said

    def go_on(self) -> None:
        """It goes on from where it waits; if it sleeps, as soon as it wakes."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")

    def kill(self) -> signal.Signals:
        """As `kill -9` does: it runs no line more. The signal that ended it."""
        self._process.kill()
        return signal.Signals(-self._process.wait())

    def sleep(self) -> None:
        """SIGSTOP; returns when it has really stopped. Asleep it would not notice our end, so somebody else does."""
        pid = self._process.pid
        self._watchdog = Watchdog(BrokerProcess(pid, processes.started(pid)))
        self._process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + DEADLINE_S
        while processes.state(pid) != "T":
            if time.monotonic() > deadline:
                raise self._failure("did not stop")
            time.sleep(POLL_S)

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)
        self._dismiss_watchdog()

    def ended(self) -> None:
        """Wait until it has ended by itself, without an error."""
        if self._process.wait(DEADLINE_S) != 0:
            raise self._failure(f"ended with {self._process.returncode}")

    def _dismiss_watchdog(self) -> None:
        if self._watchdog is not None:
            watchdog, self._watchdog = self._watchdog, None
            watchdog.dismiss()

    def _failure(self, what: str) -> ChildFailed:
        self._errors.seek(0)
        lines = self._errors.read().decode("utf-8", "replace").strip().splitlines()
        return ChildFailed(f"{self._module} {what}: {lines[-1] if lines else 'it left no message'}")


class Announcer:
    """The child's side."""

    @staticmethod
    def order() -> dict[str, Any]:
        found: dict[str, Any] = json.loads(sys.argv[1])
        return found

    @staticmethod
    def say(**facts: object) -> None:
        sys.stdout.write(json.dumps(facts) + "\n")
        sys.stdout.flush()

    @classmethod
    def wait(cls, **facts: object) -> None:
        """Say where we are, and go no further until told."""
        cls.say(**facts)
        if not sys.stdin.readline():
            sys.exit("nobody is left to tell me to go on")
