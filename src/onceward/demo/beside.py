"""The demo beside another program that shows it: its own process, which goes with the one that started it.

Run as `python -m onceward.demo.beside`. The first line of its output is where Kafka is, as JSON; the rest is for
people, on standard error. It ends by SIGTERM or with its standard input, and takes its servers and its folder along.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from onceward.demo import trial
from onceward.demo.display import Display


def run(plan: trial.Plan, folder: Path) -> None:
    """Feed and kill; then the application runs on, until somebody ends it."""
    with (
        Display(Console(stderr=True), kills=plan.kills, contrast=False) as display,
        trial.stage(plan, folder, display) as stage,
    ):
        sys.stdout.write(json.dumps({"bootstrap": stage.servers.bootstrap}) + "\n")
        sys.stdout.flush()
        found = stage.run()
        display.say("every cent is right" if found.exact else "the bill is wrong: `onceward demo` says where")
        stage.stay()


def _end_with_parent() -> None:
    """Standard input is a pipe that only the parent holds: its end is the parent's end, even by kill -9."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _interrupt_once() -> None:
    """The first signal ends the work; further ones do not disturb the clearing up."""

    def interrupt(*_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--events", type=int, required=True)
    options.add_argument("--kills", type=int, required=True)
    options.add_argument("--seed", type=int, required=True)
    given = options.parse_args()
    _interrupt_once()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    plan = trial.Plan(events=given.events, kills=given.kills, seed=given.seed, contrast=False)
    try:
        with suppress(KeyboardInterrupt):
            run(plan, given.folder)
    finally:
        shutil.rmtree(given.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
