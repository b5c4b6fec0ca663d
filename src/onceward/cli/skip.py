"""`onceward skip`: pass over a record that no epoch can be made of."""

from pathlib import Path
from typing import Annotated

import typer

from onceward.cli.homes import HomeArgument, home_at, pipeline_from_file
from onceward.cli.output import AsJson, progress, result
from onceward.epoch import inspection, skips
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.poison import MOST
from onceward.epoch.skips import Skipped
from onceward.terminal import one_line

SHOWN = 60  # bytes of a value


def skip(
    home: HomeArgument,
    record: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC/PARTITION/OFFSET]",
            help="The record, as in clicks/0/17; 1:clicks/0/17 of the second source.",
            show_default=False,
        ),
    ] = None,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", help="The pipeline's file: its sources and sinks are asked.")
    ] = None,
    reason: Annotated[str, typer.Option(help="Why: kept with the record, and a header of its dead letter.")] = "",
    dead_letters: Annotated[
        bool,
        typer.Option("--dead-letters", help="The Kafka sink carries it to its topic for dead letters, with its epoch."),
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Read it after all, if no epoch has passed over it yet.")
    ] = False,
    find: Annotated[
        bool,
        typer.Option("--find", help="Find out which record makes the epoch fail, and change nothing; needs --file."),
    ] = False,
    shown: Annotated[bool, typer.Option("--list", help="Show which records are skipped.")] = False,
    as_json: AsJson = False,
) -> None:
    """Leave one record out of the input, on record in the home and in the ledger: for a record that makes epochs fail.

    The pipeline must be stopped; its next start goes on without the record.
    """
    if shown or find or record is None or file is None:
        if record is not None or shown is find or (find and file is None):
            raise typer.BadParameter("give a record and --file FILE.py, or --find and --file FILE.py, or --list")
        if shown:
            _list(home, as_json=as_json)
        elif file is not None:
            _find(home, file, as_json=as_json)
        return
    source, topic, partition, offset = skips.parse(record)
    with pipeline_from_file(file, home) as pipeline:
        if undo:
            pipeline.unskip(topic, partition, offset, source=source, report=progress)
            text, facts = f"{record} is read again by the next start", dict[str, object]()
        else:
            found = pipeline.skip(
                topic, partition, offset, reason=reason, source=source, dead_letters=dead_letters, report=progress
            )
            facts = _facts(found)
            where = f"; its epoch carries it to {found.dead_letters}" if found.dead_letters is not None else ""
            text = (
                f"{_line(found)}\nThe next start leaves it out{where}. The home keeps it: onceward skip {home} --list"
            )
    result({"pipeline": pipeline.name, "record": record, "undone": undo, **facts}, text, as_json=as_json)


def _find(home: str, file: Path, *, as_json: bool) -> None:
    with pipeline_from_file(file, home) as pipeline:
        found = pipeline.find_poison(report=progress)
    epoch, whole = found[0].epoch, len(found) < MOST
    lines = [line for it in found for line in (f"{_told(it.record)}", f"  fails alone: {one_line(it.error)}")]
    rest = f"Without {'it' if len(found) == 1 else 'them'} epoch {epoch} runs through" if whole else "There may be more"
    lines.append(
        f"{rest}. Repair the code if you can; else leave it out: onceward skip {home} {found[0].record.place} "
        f"--file {file}"
    )
    facts = [{"record": str(it.record.place), "error": it.error} for it in found]
    told = {"pipeline": pipeline.name, "epoch": epoch, "found": facts, "all": whole}
    result(told, "\n".join(lines), as_json=as_json)


def _list(home: str, *, as_json: bool) -> None:
    with home_at(home) as found:
        deed = inspection.deed_of(found)
        records = skips.read(Checkpoint.noted(found.of_lineage(deed), skips.FILE))
    text = "\n".join(map(_line, records)) or f"{deed.pipeline}: no record is skipped"
    result({"pipeline": deed.pipeline, "skipped": [_facts(it) for it in records]}, text, as_json=as_json)


def _facts(record: Skipped) -> dict[str, object]:
    import msgspec

    return dict(msgspec.to_builtins(record))


def _line(record: Skipped) -> str:
    why = f", {record.reason}" if record.reason else ""
    return one_line(f"{_told(record)}{why} (skipped {record.at[:19]} by {record.by})")


def _told(record: Skipped) -> str:
    value = record.value if record.value is not None else b""
    told = value[:SHOWN].decode("utf-8", "replace") + ("..." if len(value) > SHOWN else "")
    return one_line(f"{record.place}: {len(value)} bytes {told!r}")
