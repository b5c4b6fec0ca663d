"""`onceward savepoint`: create, list, inspect, verify, compare and delete savepoints (docs/savepoints.md)."""

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from onceward.cli.homes import HomeArgument, home_at
from onceward.cli.output import AsJson, progress, result
from onceward.cli.savepoint_diff import diff
from onceward.cli.savepoint_tables import described, listed
from onceward.epoch import stop_request
from onceward.epoch.home import parse_home
from onceward.holding import is_gone
from onceward.savepoint import creating, keeping
from onceward.savepoint.manifest import Savepoint, load
from onceward.savepoint.place import Place
from onceward.savepoint.verifying import verify as verify_place

if TYPE_CHECKING:
    from onceward.epoch.home import Home

app = typer.Typer(
    help="Save a pipeline's state and positions at an epoch's end, to restore them anywhere.", no_args_is_help=True
)
app.command()(diff)

SavepointArgument = Annotated[
    str, typer.Argument(metavar="SAVEPOINT", help="The savepoint's directory, or hdfs://...", show_default=False)
]


@app.command()
def create(
    home: HomeArgument,
    *,
    to: Annotated[Path | None, typer.Option(help="A local directory that is not there yet.")] = None,
    name: Annotated[str | None, typer.Option(help="Its name in HOME/savepoints. Default: by epoch.")] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Have the running pipeline finish its epoch and stop first.")
    ] = False,
    patience: Annotated[
        float, typer.Option(min=1, help="With --stop: how many seconds to wait for the running epoch.")
    ] = stop_request.PATIENCE_S,
    as_json: AsJson = False,
) -> None:
    """Save the newest finished epoch. The pipeline may run on, in whatever process, and need not be running."""
    with home_at(home) as found, _stopped(found, patience) if stop else nullcontext():
        began = time.monotonic()
        place = creating.create(found, to=to, name=name, now=_now, report=progress)
        savepoint, seconds = load(place), time.monotonic() - began
    text = (
        f"{place.location}: epoch {savepoint.epoch} of {savepoint.pipeline}, {len(savepoint.files)} files, "
        f"{savepoint.bytes} bytes, in {seconds:.2f} s"
    )
    result({**_facts(place, savepoint), "seconds": round(seconds, 3)}, text, as_json=as_json)


@app.command("list")
def list_(home: HomeArgument, *, as_json: AsJson = False) -> None:
    """The savepoints in HOME/savepoints, and what is wrong with those that cannot be read."""
    with home_at(home) as place:
        found = keeping.find(place)
        where = place.location
    facts = [
        _facts(it.place, it.savepoint) if it.savepoint else {"place": it.place.location, "problem": it.problem}
        for it in found
    ]
    result({"savepoints": facts}, listed(found) if found else f"{where} has no savepoints", as_json=as_json)


@app.command()
def inspect(savepoint: SavepointArgument, *, as_json: AsJson = False) -> None:
    """What a savepoint holds: epoch, lineage, positions, operators, partitions, sinks and the query's shape."""
    with _place_of(savepoint) as place:
        found = load(place)
    result(msgspec.to_builtins(found), described(place.location, found), as_json=as_json)


@app.command()
def verify(savepoint: SavepointArgument, *, as_json: AsJson = False) -> None:
    """Read every file and compare it with its checksum; name each that is missing, altered or additional."""
    with _place_of(savepoint) as place:
        found = verify_place(place)
    text = f"{place.location}: whole, {len(found.files)} files, {found.bytes} bytes (epoch {found.epoch})"
    result(_facts(place, found), text, as_json=as_json)


@app.command()
def delete(
    savepoint: SavepointArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a savepoint, or what an interrupted deletion has left of it."""
    with _place_of(savepoint) as place:
        if not yes:
            typer.confirm(f"Delete {place.location!a} permanently?", abort=True, err=True)
        whole = keeping.delete(place)
    text = f"{place.location}: {'deleted' if whole else 'the rest of it is deleted'}"
    result({"deleted": place.location}, text, as_json=as_json)


@contextmanager
def _stopped(home: "Home", patience_s: float) -> Iterator[None]:
    asked = stop_request.stopped(
        home,
        by=f"onceward savepoint create (process {os.getpid()} on {socket.gethostname()})",
        now=_now,
        is_gone=is_gone,
        clock=time.monotonic,
        sleep=time.sleep,
        patience_s=patience_s,
        report=progress,
    )
    with asked as holder:
        progress(f"stopped: {holder}" if holder else "nobody is running the pipeline")
        yield


@contextmanager
def _place_of(text: str) -> Iterator[Place]:
    """A savepoint in HDFS is read through Spark's Hadoop client, like a home."""
    parsed = parse_home(text)
    if isinstance(parsed, Path):
        yield Place.at(parsed)
        return
    around, _, name = parsed.rpartition("/")
    with home_at(around) as folder:
        yield Place(folder.storage, name, parsed)


def _facts(place: Place, savepoint: Savepoint) -> dict[str, object]:
    return {
        "place": place.location,
        "id": savepoint.id,
        "pipeline": savepoint.pipeline,
        "lineage": savepoint.lineage,
        "epoch": savepoint.epoch,
        "created_at": savepoint.created_at,
        "files": len(savepoint.files),
        "bytes": savepoint.bytes,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
