"""Savepoints as tables. Cells are `Text`: a name such as "[/red]" is no markup."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from onceward.cli.tables import printed
from onceward.savepoint.keeping import Found
from onceward.savepoint.manifest import Savepoint
from onceward.terminal import one_line

_RIGHT: Final = frozenset(
    {"epoch", "bytes", "files", "rows", "partitions", "id", "partition", "read up to", "written up to", "on its way"}
    | {"replicas", "leader", "first", "end", "position", "lag"}
)


def listed(found: Sequence[Found]) -> str:
    """One line for each."""
    rows = [
        [it.place.name, str(s.epoch), s.pipeline, s.backend, str(s.bytes), _at(s)]
        if (s := it.savepoint)
        else [it.place.name, "", it.problem, "", "", ""]
        for it in found
    ]
    return table("", ("savepoint", "epoch", "pipeline", "backend", "bytes", "created at"), rows)


def described(location: str, savepoint: Savepoint) -> str:
    """All that the manifest says, but for the files."""
    entry, shape = savepoint.entry, savepoint.shape
    size = f"{len(savepoint.files)} files, {savepoint.bytes} bytes"
    lines = [
        one_line(f"{savepoint.pipeline} ({savepoint.guarantee}), lineage {savepoint.lineage}: {location}"),
        f"after epoch {savepoint.epoch} (term {savepoint.term}), created {_at(savepoint)}, id {savepoint.id}",
        f"state: {savepoint.backend or 'unknown'}, {savepoint.partitions} partitions; {size}",
        *(f"input ends at {one_line(text)}" for text in entry.positions),
    ]
    operators = [
        [str(it.id), it.name, str(it.partitions), [*it.stores], _or_unknown(it.rows), str(it.bytes)]
        for it in savepoint.operators
    ]
    sinks = [
        [
            f"{name}{' *' if name == entry.decider else ''}",
            it.kind.rpartition(":")[2],
            str(it.rows),
            it.digest,
            str(dict(it.committable)),
        ]
        for name, it in entry.sinks.items()
    ]
    tables = [
        table("operators", ("id", "operator", "partitions", "stores", "rows", "bytes"), operators),
        table(f"epoch {entry.epoch} in the sinks", ("sink", "kind", "rows", "digest", "committed as"), sinks),
    ]
    known = [("source", it) for it in shape.sources] + [("output", it) for it in shape.output]
    known += [("operator", f"{it.name} by {', '.join(it.keys)} {' '.join(it.details)}") for it in shape.operators]
    tables.append(table(f"the query ({shape.output_mode})", ("part", "what it is"), known))
    return "\n".join([*lines, *(it for it in tables if it)])


def table(title: str, columns: Sequence[str], rows: Sequence[Iterable[str | Sequence[str]]]) -> str:
    """A cell with several lines is a list; a line end within a name is shown, and ends no line."""
    if not rows:
        return ""
    made = Table(
        title=Text(one_line(title)) if title else None,
        title_justify="left",
        header_style="bold",
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for name in columns:
        made.add_column(name, overflow="fold", justify="right" if name in _RIGHT else "left")
    for row in rows:
        lines = ([cell] if isinstance(cell, str) else cell for cell in row)
        made.add_row(*(Text("\n".join(map(one_line, it))) for it in lines))
    return printed(made)


def _or_unknown(rows: int | None) -> str:
    return "not counted" if rows is None else str(rows)


def _at(savepoint: Savepoint) -> str:
    return savepoint.created_at[:19].replace("T", " ")
