"""Driver processes: one at work, and one that has been started and warmed ahead and takes over when that is killed.

So with those that have no Spark, and make savepoints.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, cast

import msgspec

from onceward import processes
from onceward.proof.chaos.places import ProofFailed
from onceward.proof.sequences.driver import NO_SPARK, OF_FILES, READY
from onceward.proof.sequences.orders import Answer, Order

LOST: Final = "DriverLost"  # in place of an error's class
WITH_SPARK: Final = "--with-spark"
START_S: Final = 180.0  # a JVM, warmed up, on a machine that is busy
ANSWER_S: Final = 240.0
CLEAR_S: Final = 30.0
POLL_S: Final = 0.01
TAIL: Final = 3_000  # characters of a log


class Driver:
    """A process that carries out orders until it is killed, or told to end."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._log = log
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "onceward.proof.sequences.driver", *arguments],
                env={**os.environ, "TMPDIR": str(log.parent)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                start_new_session=True,
            )
        self.pid = self._process.pid

    def await_ready(self) -> None:
        if self._line(START_S) != READY:
            raise ProofFailed(f"a driver process did not start: {self.tail()}")

    def ask(self, order: Order) -> Answer | None:
        """None: it died on the way, as it was told."""
        orders = cast("IO[bytes]", self._process.stdin)
        orders.write(msgspec.json.encode(order) + b"\n")
        orders.flush()
        line = self._line(ANSWER_S)
        if line:
            return msgspec.json.decode(line, type=Answer)
        code = self._process.wait(CLEAR_S)
        if not order.crash_at or code != -signal.SIGKILL:
            raise ProofFailed(f"a driver process ended by itself (exit code {code}): {self.tail()}")
        return None

    def clear(self) -> None:
        """SIGKILL to all of it, its JVM too; returns when nothing of it is left."""
        deadline = time.monotonic() + CLEAR_S
        while members := processes.session(self.pid):
            if time.monotonic() > deadline:
                raise ProofFailed(f"processes of a driver do not end, not even after SIGKILL: {sorted(members)}")
            processes.send(members, signal.SIGKILL)
            time.sleep(POLL_S)
        self._process.wait(CLEAR_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def tail(self) -> str:
        return self._log.read_text("utf-8", "replace")[-TAIL:]

    def _line(self, within_s: float) -> str:
        """Empty: its end of the pipe is closed. Whoever says nothing for too long is killed, which closes it, too."""
        late = threading.Timer(within_s, self._give_up, [within_s])
        late.daemon = True
        late.start()
        try:
            return cast("IO[bytes]", self._process.stdout).readline().decode().strip()
        finally:
            late.cancel()

    def _give_up(self, after_s: float) -> None:
        with self._log.open("ab") as log:
            log.write(f"no answer within {after_s:.0f} s: killed\n".encode())
        processes.send([self.pid], signal.SIGTERM)


class Drivers:
    """Of each kind the one at work; starts the spare one when that takes its place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._all: list[Driver] = []
        self._started = 0
        self._at_work: dict[str, Driver] = {}
        self._spare: dict[str, Driver] = {}

    def ask(self, order: Order) -> Answer | None:
        """None: the driver was killed, and nothing of it is left."""
        kind = NO_SPARK if order.kind in OF_FILES else WITH_SPARK
        if kind not in self._at_work:
            self._at_work[kind] = self._next(kind)
        driver = self._at_work[kind]
        try:
            answer = driver.ask(order)
        except (ProofFailed, OSError) as lost:  # told of its sequence; the next one goes on
            self._clear(kind, driver)
            return Answer(refused=LOST, message=str(lost))
        if answer is None:
            self._clear(kind, driver)
        return answer

    def _clear(self, kind: str, driver: Driver) -> None:
        driver.clear()
        self._all.remove(driver)
        del self._at_work[kind]

    def clear(self) -> None:
        """No process of any driver is left."""
        for driver in self._all:
            driver.clear()
        self._all.clear()

    def _next(self, kind: str) -> Driver:
        driver = self._spare.pop(kind, None) or self._start(kind)
        driver.await_ready()
        self._spare[kind] = self._start(kind)
        return driver

    def _start(self, kind: str) -> Driver:
        self._started += 1
        driver = Driver(self._folder / f"driver-{self._started:04d}.log", kind)
        self._all.append(driver)
        return driver
