"""How every command speaks: results to standard output, progress to standard error."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Final

import typer

from onceward.terminal import plain

EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2  # click's own
EXIT_VIOLATION: Final = 3
EXIT_NEEDS_PERSON: Final = 4  # of `onceward run`: starting it again gives the same until somebody has done something

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


def progress(text: str) -> None:
    """A line for people. Text from homes, brokers and users may hold anything, so it goes through `plain`."""
    sys.stderr.write(f"{plain(text)}\n")
    sys.stderr.flush()


def result(facts: Mapping[str, object], text: str, *, as_json: bool) -> None:
    """What the command found out: `facts` for programs, `text` for people."""
    sys.stdout.write(f"{json.dumps(facts) if as_json else plain(text)}\n")
    sys.stdout.flush()
