"""How pipelines, queries and epochs show themselves in a notebook or at a prompt. Nothing here asks Spark."""

import io
from collections.abc import Iterable
from html import escape
from typing import Final, SupportsIndex, overload

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onceward.epoch.ledger import Entry
from onceward.terminal import one_line

WIDTH: Final = 80
SHOWN: Final = 20
COLUMNS: Final = ("epoch", "rows in", "tries", "ms", "rows out", "committed at")


class Epochs(list[Entry]):
    """Entries of the ledger, oldest first. A list that prints as a table of its last ones."""

    @overload
    def __getitem__(self, index: SupportsIndex) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> "Epochs": ...
    def __getitem__(self, index: SupportsIndex | slice) -> "Entry | Epochs":
        found = super().__getitem__(index)
        return Epochs(found) if isinstance(found, list) else found

    def __repr__(self) -> str:
        if not self:
            return "no epoch yet"
        table = Table(box=None, padding=(0, 2, 0, 0))
        for name in COLUMNS:
            table.add_column(name, justify="right" if name in COLUMNS[:4] else "left", overflow="fold")
        for entry in self[-SHOWN:]:
            table.add_row(*map(Text, _cells(entry)))
        text = io.StringIO()
        Console(file=text, width=WIDTH, color_system=None, force_terminal=False).print(table)
        lines = [line.rstrip() for line in text.getvalue().rstrip().splitlines()]
        return "\n".join([*self._left_out(), *lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in _cells(entry))}</tr>" for entry in self[-SHOWN:]
        )
        above = "".join(f"<p>{escape(line)}</p>" for line in self._left_out())
        return f"{above}<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>" if self else "no epoch yet"

    def _left_out(self) -> list[str]:
        return [f"the last {SHOWN} of {len(self)} epochs"] if len(self) > SHOWN else []


def _cells(entry: Entry) -> list[str]:
    sinks = ", ".join(f"{name} {part.rows}" for name, part in entry.sinks.items())
    spent = sum(entry.milliseconds.values())
    at = entry.finished_at[:19].replace("T", " ")
    read = "" if entry.input_rows is None else str(entry.input_rows)
    return [one_line(it) for it in (str(entry.epoch), read, str(entry.attempts), f"{spent:.0f}", sinks, at)]


def as_html(title: str, lines: Iterable[str]) -> str:
    """A title and a few words about it."""
    return f"<b>{escape(one_line(title))}</b><br>{'<br>'.join(escape(one_line(line)) for line in lines)}"


def counted_as(number: int, what: str) -> str:
    """One epoch, two epochs."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
