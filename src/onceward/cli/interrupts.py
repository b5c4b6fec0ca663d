"""Ctrl-C and SIGTERM for commands that have processes to end before they go."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import typer

from onceward.cli.output import EXIT_FAILED, progress


@contextmanager
def interrupted_once(what_is_gone: str) -> Iterator[None]:
    """The first one ends the work; further ones do not disturb the clearing up."""
    asked = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        progress(f"onceward: interrupted; {what_is_gone}")
        raise typer.Exit(EXIT_FAILED) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
