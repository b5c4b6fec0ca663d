"""`onceward epochs`: the last epochs of a home."""

import io
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from onceward.cli.homes import HomeArgument, home_at
from onceward.cli.output import AsJson, result
from onceward.epoch import inspection
from onceward.epoch.ledger import Entry
from onceward.terminal import one_line, plain

WIDTH = 160


def epochs(
    home: HomeArgument,
    *,
    last: Annotated[int, typer.Option(min=1, help="How many epochs.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the last epochs: positions, counts, digests, phase, and the time of each phase in each sink."""
    with home_at(home) as found:
        deed, entries = inspection.deed_of(found), inspection.epochs(found, last)
    facts = {
        "pipeline": deed.pipeline,
        "lineage": deed.lineage,
        "guarantee": deed.guarantee,
        "epochs": [msgspec.to_builtins(entry) for entry in entries],
    }
    title = one_line(f"{deed.pipeline} ({deed.guarantee}), lineage {deed.lineage[:8]}")
    result(facts, _table(title, entries) if entries else f"{title}: no epoch yet", as_json=as_json)


def _input(entry: Entry) -> str:
    return "\n".join([*entry.positions, *(f"without {place}" for place in entry.skipped)])


def _table(title: str, entries: list[Entry]) -> str:
    """Cells are `Text`: a name such as "[/red]" is no markup."""
    table = Table(title=Text(title), title_justify="left", show_lines=False, header_style="bold")
    for name in ("epoch", "phase", "term", "tries", "input ends at", "sink", "rows", "digest", "ms per phase", "at"):
        table.add_column(name, overflow="fold", justify="right" if name in {"epoch", "rows", "term"} else "left")
    for entry in entries:
        head = [str(entry.epoch), entry.phase, str(entry.term), str(entry.attempts), _input(entry)]
        sinks = [(name, part.rows, part.digest, part.milliseconds) for name, part in entry.sinks.items()]
        for number, (name, rows, digest, times) in enumerate(sinks or [("", entry.rows, entry.digest, {})]):
            decides = " *" if name == entry.decider else ""
            spent = ", ".join(f"{step} {took:g}" for step, took in (times or entry.milliseconds).items())
            first = [*head] if number == 0 else [""] * len(head)
            at = entry.finished_at[:23].replace("T", " ") if number == 0 else ""
            cells = [*first, f"{name}{decides}", str(rows), digest, spent, at]
            table.add_row(*(Text(plain(cell)) for cell in cells))
    text = io.StringIO()
    Console(file=text, width=WIDTH, color_system=None, force_terminal=False).print(table)
    decider = entries[-1].decider
    return text.getvalue() + ("* its commit decides" if decider in entries[-1].sinks else "the ledger decides")
