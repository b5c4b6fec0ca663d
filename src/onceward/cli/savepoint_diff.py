"""`onceward savepoint diff`: what became of the state between two savepoints, key by key."""

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from onceward.cli.output import AsJson, result
from onceward.cli.tables import printed
from onceward.terminal import plain

if TYPE_CHECKING:
    from onceward.pipeline.state_diff import StoreDiff

Stored = Annotated[str, typer.Argument(help="A savepoint, or a home: its newest epoch.", show_default=False)]


def diff(
    a: Stored,
    b: Stored,
    *,
    operator: Annotated[int | None, typer.Option(min=0, help="Only this one, by Spark's number.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows shown of each store; the counts are complete.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Compare the state of two savepoints, operator by operator: keys added, removed and changed, with their values."""
    from onceward.pipeline.session import end, session
    from onceward.pipeline.state_diff import diff as compare

    spark = session("onceward", master="local[2]")
    try:
        found = compare(spark, a, b, operator=operator, limit=limit)
    finally:
        end(spark)
    facts = {"a": a, "b": b, "stores": [msgspec.to_builtins(it) for it in found]}
    text = "\n".join(_told(it) for it in found) if found else "neither has any state"
    result(facts, text, as_json=as_json)


def _told(store: "StoreDiff") -> str:
    head = (
        f"operator {store.operator} ({store.name}), {store.store}: {store.added} added, {store.removed} removed, "
        f"{store.changed} changed, {store.same} the same"
    )
    if not store.rows:
        return head
    table = Table(show_lines=False, header_style="bold")
    for name in ("", "key", "before", "after"):
        table.add_column(name, overflow="fold")
    for row in store.rows:
        table.add_row(*(Text(plain(cell)) for cell in (row.kind, row.key, row.before or "", row.after or "")))
    more = store.added + store.removed + store.changed - len(store.rows)
    return f"{head}\n{printed(table)}\n" + (f"and {more} more\n" if more else "")
