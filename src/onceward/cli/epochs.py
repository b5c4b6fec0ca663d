"""`onceward epochs`: the last epochs of a home."""

from typing import Annotated, Final

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from onceward.cli.homes import HomeArgument, home_at
from onceward.cli.output import AsJson, result
from onceward.cli.tables import printed
from onceward.epoch import inspection
from onceward.epoch.ledger import DECIDED, DONE, PREPARED, STARTED, Entry
from onceward.terminal import one_line

PHASES: Final = {
    STARTED: "begun, never to be repeated",
    PREPARED: "voted for by every sink, not known to be decided",
    DECIDED: "decided, not committed everywhere",
    DONE: "committed",
}


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
        "epochs": msgspec.to_builtins(entries),
    }
    title = one_line(f"{deed.pipeline} ({deed.guarantee}), lineage {deed.lineage[:8]}")
    result(facts, _told(title, entries) if entries else f"{title}: no epoch yet", as_json=as_json)


def _told(title: str, entries: list[Entry]) -> str:
    """Cells are `Text`: a name such as "[/red]" is no markup."""
    decider = entries[-1].decider
    decides = "* its commit decides" if decider in entries[-1].sinks else "the ledger decides"
    return "\n".join([title, *(_epoch(entry) for entry in entries), decides])


def _epoch(entry: Entry) -> str:
    """A line about the epoch, where its input ends, and a line for each sink."""
    read = f"{entry.input_rows:,} rows in, " if entry.input_rows is not None else ""
    tries = f"{entry.attempts} tries, " if entry.attempts > 1 else ""
    at = entry.finished_at[:23].replace("T", " ")
    head = one_line(
        f"epoch {entry.epoch}  {PHASES.get(entry.phase, entry.phase)} {at}  ({read}{tries}term {entry.term})"
    )
    ends = Table.grid(padding=(0, 2))
    ends.add_column(no_wrap=True)
    ends.add_column(overflow="fold")
    for text in entry.positions:
        ends.add_row(Text("  input ends at"), Text(one_line(text)))
    for place in entry.skipped:
        ends.add_row(Text("  without"), Text(one_line(place)))
    table = Table.grid(padding=(0, 2))
    for name in ("sink", "rows", "digest", "milliseconds"):
        table.add_column(overflow="fold", no_wrap=name == "rows", justify="right" if name == "rows" else "left")
    for name, rows, digest, times in _sinks(entry):
        spent = ", ".join(f"{step} {took:g}" for step, took in times.items())
        table.add_row(*map(Text, (f"  {one_line(name)}", f"{rows:,} rows", digest, f"{spent} ms" if spent else "")))
    return "\n".join([head, printed(ends), printed(table)])


def _sinks(entry: Entry) -> list[tuple[str, int, str, dict[str, float]]]:
    return [
        (f"{name}{' *' if name == entry.decider else ''}", part.rows, part.digest, dict(part.milliseconds))
        for name, part in entry.sinks.items()
    ]
