"""What is happening, on standard error: bars where there is a terminal, a line now and then where there is none."""

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from onceward.terminal import one_line, plain

LINE_EVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Counts:
    """How many records each side has shown so far."""

    fed: int
    ours: int  # records visible in all the topics that the application makes
    sparks: int | None  # None: there is no contrast
    kills: int


class Display:
    """Says milestones and shows counts."""

    def __init__(self, console: Console, *, kills: int, contrast: bool) -> None:
        self._console = console
        self._began = time.monotonic()
        self._last_line = self._began
        self._kills = kills
        self._expected = 1
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=32),
            TextColumn("{task.fields[text]}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        names = ("records fed", "visible, Onceward", "visible, Spark's own sinks", "kills")
        self._fed, self._ours, self._sparks, self._killed = (
            self._bars.add_task(name, total=1, text="") for name in names
        )
        self._bars.update(self._sparks, visible=contrast)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def expect(self, *, fed: int, visible: int) -> None:
        """How many records there will be in the raw topics, and in those that the application makes."""
        self._expected = visible
        for bar, total in ((self._fed, fed), (self._ours, visible), (self._sparks, visible)):
            self._bars.update(bar, total=total)
        self._bars.update(self._killed, total=max(self._kills, 1))

    def introduce(self, text: str) -> None:
        self._console.print(f"{text}\n", highlight=False, markup=False, soft_wrap=not self._console.is_terminal)

    def say(self, text: str) -> None:
        """A milestone: it stays on the screen."""
        self._console.print(f"{self.seconds:5.0f} s  {plain(text)}", highlight=False, markup=False, soft_wrap=True)

    def show(self, counts: Counts, now: str) -> None:
        """Where things stand, and what is happening now."""
        self._bars.update(self._fed, completed=counts.fed, text=f"{counts.fed:,}")
        for bar, count in ((self._ours, counts.ours), (self._sparks, counts.sparks or 0)):
            more = f" ({count - self._expected:,} too many)" if count > self._expected else ""
            self._bars.update(bar, completed=min(count, self._expected), text=f"{count:,}{more}")
        self._bars.update(
            self._killed, completed=counts.kills, text=f"{counts.kills} of {self._kills}: {one_line(now)}"
        )
        if not self._console.is_terminal and time.monotonic() - self._last_line > LINE_EVERY_S:
            self._last_line = time.monotonic()
            beside = "" if counts.sparks is None else f", {counts.sparks:,} through Spark's own sinks"
            self.say(f"{now}; {counts.fed:,} records fed; visible: {counts.ours:,} through Onceward{beside}")
