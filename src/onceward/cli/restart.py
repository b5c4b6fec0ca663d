"""`onceward run --restart`: the driver in a process of its own, started again when it ends though nobody asked.

The child is a whole new process each time, so that a JVM that crashed or a `kill -9` is survived too. Between the two
is a pair of sockets: the child says when it has committed something, and stops when its supervisor is gone.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, Final

import typer

from onceward.cli.output import EXIT_NEEDS_PERSON, EXIT_USAGE, progress
from onceward.watching.sight import Sight

VARIABLE: Final = "ONCEWARD_SUPERVISOR"  # the child's end of the pair, by its number
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
LIMIT: Final = 10
POLL_S: Final = 0.1
COMMITTED: Final = b"."
NOT_AGAIN: Final = frozenset({0, EXIT_USAGE, EXIT_NEEDS_PERSON})

Restart = Annotated[
    bool,
    typer.Option("--restart", help="Start again, with back-off, when it ends by itself and a restart can help."),
]
RestartLimit = Annotated[
    int, typer.Option("--restart-limit", min=1, help="So many restarts in a row without a committed epoch at most.")
]


def is_supervised() -> bool:
    """Whether this process is the child."""
    return VARIABLE in os.environ


def supervise(command: Sequence[str], limit: int, report: Callable[[str], None] = progress) -> int:
    """Run it until it ends for good; its exit code."""
    return Supervisor(command, limit, report).run()


class Supervisor:
    """Starts a child, again and again. Signals go to the child; then it is not started again."""

    def __init__(self, command: Sequence[str], limit: int, report: Callable[[str], None] = progress) -> None:
        self._command = list(command)
        self._limit = limit
        self._report = report
        self._asked = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        restarts = 0
        with self._signals():
            while True:
                code, committed = self._once()
                if code in NOT_AGAIN or self._asked.is_set():
                    return code
                restarts = 1 if committed else restarts + 1
                if restarts > self._limit:
                    self._report(f"onceward: {self._limit} restarts in a row without a committed epoch: given up")
                    return code
                pause_s = min(FIRST_PAUSE_S * 2 ** (restarts - 1), LONGEST_PAUSE_S)
                self._report(
                    f"onceward: the driver ended ({_said(code)}); starting it again in {pause_s:.0f} s "
                    f"(restart {restarts} of at most {self._limit} without a committed epoch)"
                )
                if self._asked.wait(pause_s):
                    return code

    def _once(self) -> tuple[int, bool]:
        """One life: its exit code, and whether it committed something."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self._child = subprocess.Popen(
                    self._command,
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, VARIABLE: str(theirs.fileno())},
                    start_new_session=True,  # a terminal's Ctrl-C comes to us, and we hand it on once
                )
            if self._asked.is_set():  # while it was being started
                self._child.terminate()
            ours.setblocking(False)
            committed = False
            while (code := self._child.poll()) is None:
                committed = _heard(ours) or committed
                with suppress(subprocess.TimeoutExpired):
                    self._child.wait(POLL_S)
            committed = _heard(ours) or committed
        return (128 - code if code < 0 else code), committed

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def hand_on(number: int, _frame: FrameType | None) -> None:
            self._asked.set()
            if self._child is not None and self._child.poll() is None:
                self._child.send_signal(number)

        before = {number: signal.signal(number, hand_on) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def supervised() -> Iterator[Callable[[Sequence[Sight]], None]]:
    """In a child: stops cleanly when the supervisor is gone. Gives what tells it of committed epochs."""
    number = os.environ.pop(VARIABLE, None)
    if number is None:
        yield lambda _: None
        return
    with socket.socket(fileno=int(number)) as pair:
        pair.set_inheritable(False)
        over = threading.Event()
        threading.Thread(target=_stop_without, args=(pair, over), name="onceward-supervisor", daemon=True).start()
        told = 0

        def tell(sights: Sequence[Sight]) -> None:
            nonlocal told
            done = sum(sight.epochs_committed for sight in sights)
            if done > told:
                told = done
                with suppress(OSError):  # it is gone: the thread stops us
                    pair.send(COMMITTED)

        try:
            yield tell
        finally:
            over.set()
            with suppress(OSError):
                pair.shutdown(socket.SHUT_RDWR)  # wakes the thread


def _stop_without(pair: socket.socket, over: threading.Event) -> None:
    with suppress(OSError):
        pair.recv(1)  # nothing ever comes but the end
    if not over.is_set():
        os.kill(os.getpid(), signal.SIGTERM)


def _heard(pair: socket.socket) -> bool:
    try:
        return bool(pair.recv(4096))
    except OSError:  # nothing yet, or it is gone
        return False


def _said(code: int) -> str:
    return f"killed by {signal.Signals(code - 128).name}" if code > 128 else f"exit code {code}"


def own_command() -> list[str]:
    """What this process was started with, as the child is."""
    return [sys.executable, "-m", "onceward", *sys.argv[1:]]
