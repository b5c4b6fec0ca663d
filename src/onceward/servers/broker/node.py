"""One node of a dev cluster: its folder, its process, and what it said."""

import contextlib
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from onceward.errors import DevBrokerError
from onceward.servers.broker.process import BrokerProcess

POLL_S: Final = 0.05
FORMAT_TIMEOUT_S: Final = 60.0
STOP_TIMEOUT_S: Final = 20.0  # three nodes that stop at once wait 5 s for each other's votes
LOG_TAIL_LINES: Final = 25


@dataclass(frozen=True, slots=True)
class Node:
    number: int
    home: Path

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log_file(self) -> Path:
        return self.home / "broker.log"

    @property
    def properties_file(self) -> Path:
        return self.home / "server.properties"

    @property
    def formatted(self) -> Path:
        """An empty file that stands for a finished format."""
        return self.home / "formatted"

    def process(self) -> BrokerProcess | None:
        """The process, if it lives."""
        return BrokerProcess.read(self.home / "pid")

    def running(self) -> BrokerProcess:
        process = self.process()
        if process is None:
            raise DevBrokerError(f"Node {self.number} in {self.home} does not run.")
        return process

    def prepare(self, properties: str) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.properties_file.write_text(properties, encoding="utf-8")
        self.log_file.write_bytes(b"")  # the tail shown after a failed start must be of this start

    def begin_format(self, java: list[str], cluster_id: str) -> subprocess.Popen[bytes]:
        command = [
            *java,
            "kafka.tools.StorageTool",
            "format",
            "-t",
            cluster_id,
            "-c",
            str(self.properties_file),
        ]
        with self.log_file.open("ab") as log:
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)

    def finish_format(self, formatting: subprocess.Popen[bytes]) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            formatting.wait(FORMAT_TIMEOUT_S)
        formatting.kill()
        done = formatting.wait() == 0
        if done:
            self.formatted.touch()
        return done

    def spawn(self, java: list[str]) -> BrokerProcess:
        process = BrokerProcess.spawn([*java, "kafka.Kafka", str(self.properties_file)], log=self.log_file)
        process.write(self.home / "pid")
        return process

    def forget_process(self) -> None:
        (self.home / "pid").unlink(missing_ok=True)

    def log_tail(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines() if self.log_file.exists() else []
        return f"The end of {self.log_file}:\n" + "\n".join(f"  {line}" for line in lines[-LOG_TAIL_LINES:])


def end(processes: list[BrokerProcess]) -> None:
    """Ask, wait, then kill."""
    for process in processes:
        process.send(signal.SIGTERM)
        process.send(signal.SIGCONT)  # a paused one hears nothing else
    if not ended(processes):
        kill(processes)


def kill(processes: list[BrokerProcess]) -> None:
    for process in processes:
        process.send(signal.SIGKILL)
    if not ended(processes):
        pids = ", ".join(str(process.pid) for process in processes if process.alive())
        raise DevBrokerError(f"Processes do not end, not even after SIGKILL: {pids}.")


def ended(processes: list[BrokerProcess]) -> bool:
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while any(process.alive() for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
