"""Ctrl-C and SIGTERM while pipelines run: the first stops cleanly, the second says what it waits for."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from onceward import processes

BY_SIGNAL: Final = 128  # a shell's exit code of a process that a signal ended: 130 after Ctrl-C


@dataclass(slots=True)
class Asked:
    """Whether somebody asked to stop, by which signal, and how often."""

    event: threading.Event = field(default_factory=threading.Event)
    name: str | None = None
    times: int = 0


@contextmanager
def stop_signals(
    report: Callable[[str], None], waited_for: Callable[[], str], end: Callable[[int], None] | None = None
) -> Iterator[Asked]:
    """`waited_for` must not ask Spark: a handler may interrupt a conversation with it. `end`: at the third."""
    asked = Asked()

    def note(number: int, _frame: FrameType | None) -> None:
        asked.name, asked.times = signal.Signals(number).name, asked.times + 1
        asked.event.set()
        if asked.times == 1:
            report(f"{asked.name}: finishing the running epoch")
        elif asked.times == 2:
            told = waited_for() or "Spark"
            report(f"{asked.name} again: waiting for {told}. Once more ends it at once; nothing is lost.")
        else:
            report(f"{asked.name} for the third time: ended at once. The next start finishes or redoes the epoch.")
            (end or end_at_once)(BY_SIGNAL + number)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_at_once(code: int) -> None:
    """This process and all that it started: as a kill would, which every part of Onceward is made for."""
    processes.send([pid for pid in processes.family(os.getpid()) if pid != os.getpid()], signal.SIGKILL)
    os._exit(code)
