"""What `onceward run` shows while it runs: a live view in a terminal, else a line for each epoch."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Final, Protocol

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from onceward.cli import logs
from onceward.cli.output import progress
from onceward.telemetry.outward import error_outward, outward, waiting_outward
from onceward.terminal import one_line
from onceward.watching.showing import EpochShown, Shown, Watch
from onceward.watching.sight import Sight

REDRAW_S: Final = 0.25
COLOURS: Final = {"running": "green", "waiting": "yellow", "stopping": "yellow", "failed": "red", "ended": "dim"}

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show nothing but errors and the result.")]
AsJsonLines = Annotated[
    bool, typer.Option("--json-lines", help="Print a JSON object for each epoch and each change of state.")
]


class View(Protocol):
    """Somebody who looks on while pipelines run."""

    def report(self, text: str) -> None:
        """A line for people."""

    def look(self, sights: Sequence[Sight]) -> None:
        """Called every now and then, and once more at the end."""


class Silent:
    """Nothing but errors, which are told elsewhere."""

    def report(self, text: str) -> None:
        pass

    def look(self, sights: Sequence[Sight]) -> None:
        pass


class Watching:
    """A view that follows each pipeline."""

    def __init__(self) -> None:
        self._watches: dict[str, Watch] = {}

    def report(self, text: str) -> None:
        progress(text)

    def look(self, sights: Sequence[Sight]) -> None:
        for sight in sights:
            watch = self._watches.setdefault(sight.pipeline, Watch())
            for epoch in watch.fresh(sight):
                self.epoch(epoch)
            self.state(watch.shown(sight))

    def epoch(self, epoch: EpochShown) -> None:
        """It is committed."""

    def state(self, shown: Shown) -> None:
        """As of now."""


class PlainLines(Watching):
    """For logs: a line for each epoch. What is waited for is a line of the log already."""

    def epoch(self, epoch: EpochShown) -> None:
        progress(epoch.line())


class JsonLines(Watching):
    """For programs, on standard output."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[str, tuple[str, str]] = {}

    def report(self, text: str) -> None:
        self._print({"event": "report", "text": text})

    def epoch(self, epoch: EpochShown) -> None:
        self._print({"event": "epoch", **msgspec.to_builtins(epoch)})

    def state(self, shown: Shown) -> None:
        error = shown.last_error if shown.state == "failed" else ""
        if self._told.get(shown.pipeline) != (shown.state, error):
            self._told[shown.pipeline] = (shown.state, error)
            about = {"event": "state", "pipeline": shown.pipeline, "state": shown.state}
            self._print({**about, "waits_for": waiting_outward(shown.waits_for), "error": error_outward(error)})

    @staticmethod
    def _print(facts: dict[str, object]) -> None:
        sys.stdout.write(f"{json.dumps(outward(facts))}\n")
        sys.stdout.flush()


class LogLines(Silent):
    """For programs that read the log: it has the epochs, and what is reported to people."""

    def report(self, text: str) -> None:
        logs.report(text)


class LiveView(Watching):
    """For a terminal. Lines for people go above it. Drawn from the first look on: an empty view would scroll."""

    def __init__(self, live: Live) -> None:
        super().__init__()
        self._live = live
        self._shown: dict[str, Shown] = {}
        self._drawn_at = 0.0

    def look(self, sights: Sequence[Sight]) -> None:
        super().look(sights)
        over = not any(sight.active for sight in sights)
        if self._shown and (over or time.monotonic() - self._drawn_at > REDRAW_S):
            self._drawn_at = time.monotonic()
            self._live.start()
            self._live.update(Group(*(drawn(it) for it in self._shown.values())), refresh=True)

    def state(self, shown: Shown) -> None:
        self._shown[shown.pipeline] = shown


@contextmanager
def view(*, quiet: bool = False, json_lines: bool = False, log_format: str = "text") -> Iterator[View]:
    """The view that fits where standard error goes."""
    if json_lines:
        yield JsonLines()
    elif log_format == "json":
        yield LogLines()
    elif quiet:
        yield Silent()
    elif not sys.stderr.isatty():
        yield PlainLines()
    else:
        console = Console(stderr=True, highlight=False)
        live = Live(console=console, auto_refresh=False, redirect_stdout=False)
        try:
            yield LiveView(live)
        finally:
            live.stop()


def drawn(shown: Shown) -> RenderableType:
    """One pipeline, in at most 80 columns. Cells are `Text`: a name such as "[/red]" is no markup."""
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    head = Text.assemble((one_line(shown.pipeline), "bold"), "  ", (shown.state, COLOURS.get(shown.state, "")))
    head.append(f"  ({shown.guarantee})", "dim")
    for name, text in facts(shown):
        grid.add_row(f"  {name}", Text(one_line(text)))
    return Group(head, grid)


def facts(shown: Shown) -> list[tuple[str, str]]:
    """The lines under a pipeline's name; what there is nothing to say about is left out."""
    epoch = "none yet" if shown.epoch is None else f"{shown.epoch}"
    out = ", ".join(f"{sink} {shown.rows_out_per_s[sink]:,.0f}/s ({rows:,})" for sink, rows in shown.rows_out.items())
    spent = ", ".join(f"{name} {took:,.0f}" for name, took in shown.milliseconds.items())
    total = sum(shown.milliseconds.values())
    lines = [
        ("epoch", f"{epoch} ({shown.epochs_committed:,} committed)"),
        ("rows in", f"{shown.rows_in_per_s:,.0f}/s ({shown.rows_in:,})"),
        ("rows out", out or "none yet"),
        ("lag", ", ".join(f"{topic} {behind:,}" for topic, behind in shown.lag.items())),
        ("last epoch", f"{total:,.0f} ms: {spent}" if spent else ""),
        ("waits for", shown.waits_for),
        ("last error", shown.last_error),
    ]
    return [(name, text) for name, text in lines if text]
