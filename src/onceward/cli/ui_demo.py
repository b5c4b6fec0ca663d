"""The demo in a process of its own, for the page to show."""

import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from onceward.cli.demo import require_libraries
from onceward.cli.output import progress
from onceward.errors import ConfigurationError

COMMAND: Final = (sys.executable, "-m", "onceward.demo.beside")
EVENTS: Final = 60_000  # some minutes of it; then the application runs on, idle
KILLS: Final = 8
END_S: Final = 60.0  # Kafka, PostgreSQL and Spark end within seconds


class Demo(NamedTuple):
    """Where it is."""

    homes: Path
    bootstrap: str


@contextmanager
def demo_beside() -> Iterator[Demo]:
    """Running, with kills; at the end nothing of it is left."""
    require_libraries()
    folder = Path(tempfile.mkdtemp(prefix="onceward-ui-demo-"))
    command = [*COMMAND, "--folder", str(folder), "--events", str(EVENTS), "--kills", str(KILLS)]
    command += ["--seed", str(random.SystemRandom().randrange(10_000))]
    # A session of its own: Ctrl-C is for us, and we end it. It also ends with its standard input, which we hold.
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    try:
        progress("the demo is starting its Kafka, its PostgreSQL and four pipelines, and kills them now and then")
        yield Demo(folder / "homes", _bootstrap(child))
    finally:
        _end(child)
        shutil.rmtree(folder, ignore_errors=True)


def _bootstrap(child: "subprocess.Popen[bytes]") -> str:
    assert child.stdout is not None
    line = child.stdout.readline()
    try:
        return str(json.loads(line)["bootstrap"])
    except (ValueError, KeyError) as error:
        raise ConfigurationError("the demo did not start; what it said is above") from error


def _end(child: "subprocess.Popen[bytes]") -> None:
    """Nothing may interrupt this."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    progress("ending the demo, its servers and its folder")
    child.terminate()
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(OSError):
                pipe.close()
    for number, handler in before.items():
        signal.signal(number, handler)
