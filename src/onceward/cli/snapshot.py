"""`onceward snapshot`: consistent snapshots across running pipelines (docs/snapshots.md)."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from onceward.cli.clusters import SettingOption, wire_to
from onceward.cli.homes import home_at
from onceward.cli.output import AsJson, progress, result
from onceward.cli.snapshot_tables import described
from onceward.cli.watch import view
from onceward.errors import ConfigurationError
from onceward.savepoint.place import Place
from onceward.snapshot import creating
from onceward.snapshot.manifest import KIND, Snapshot, load

if TYPE_CHECKING:
    from onceward.kafka.wire import Wire

app = typer.Typer(
    help="Save several running pipelines together, with what is on its way between them.", no_args_is_help=True
)

SnapshotArgument = Annotated[
    str, typer.Argument(metavar="SNAPSHOT", help="The snapshot's directory.", show_default=False)
]
KafkaOption = Annotated[
    str | None, typer.Option("--kafka", metavar="HOST:PORT", help="The brokers that hold the topics between them.")
]


@app.command()
def create(
    homes: Annotated[list[str], typer.Argument(metavar="HOME...", help="The pipelines' homes.", show_default=False)],
    *,
    to: Annotated[
        Path | None, typer.Option(help="A local directory that is not there yet. Default: beside the first home.")
    ] = None,
    patience: Annotated[
        float, typer.Option(min=0, help="How many seconds to wait for a consistent cut.")
    ] = creating.PATIENCE_S,
    as_json: AsJson = False,
) -> None:
    """Save several pipelines as of one consistent cut. They run on, and are not asked for anything."""
    target = to or _beside(homes[0])
    with ExitStack() as opened:
        found = [opened.enter_context(home_at(home)) for home in homes]
        began = time.monotonic()
        place, snapshot = creating.create(found, target, now=_now, patience_s=patience, report=progress)
        seconds = time.monotonic() - began
    epochs = ", ".join(f"{it.pipeline} at epoch {it.epoch}" for it in snapshot.members)
    text = f"{place.location}: {epochs}; {_under_way(snapshot)}; in {seconds:.2f} s"
    facts = {"place": place.location, "seconds": round(seconds, 3), **msgspec.to_builtins(snapshot)}
    result(facts, text, as_json=as_json)


@app.command()
def show(snapshot: SnapshotArgument, *, as_json: AsJson = False) -> None:
    """The cut: each pipeline's epoch, and what was on its way in each topic between them."""
    place, found = load(snapshot)
    result({"place": place.location, **msgspec.to_builtins(found)}, described(place.location, found), as_json=as_json)


@app.command()
def verify(
    snapshot: SnapshotArgument, *, kafka: KafkaOption = None, setting: SettingOption = None, as_json: AsJson = False
) -> None:
    """Read every file; with --kafka also the topics: is all there, and does the cut separate what it must?"""
    from onceward.snapshot.verifying import verify as verify_snapshot

    place, found = load(snapshot)
    with _wire(kafka, setting) as wire:
        savepoints = verify_snapshot(place, found, wire)
    size = sum(saved.bytes for saved in savepoints.values())
    looked = "the topics hold what was on its way" if wire is not None else "the topics were not looked at (--kafka)"
    text = f"{place.location}: whole, {len(savepoints)} savepoints, {size} bytes; the cut is consistent; {looked}"
    facts = {"place": place.location, "id": found.id, "bytes": size, "topics": wire is not None}
    result(facts, text, as_json=as_json)


@app.command()
def delete(
    snapshot: SnapshotArgument,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a snapshot, or what an interrupted deletion has left of it. Topics and homes are not touched."""
    place = Place.at(snapshot)
    if not yes:
        typer.confirm(f"Delete {place.location!a} permanently?", abort=True, err=True)
    KIND.delete(place)
    result({"deleted": place.location}, f"{place.location}: deleted", as_json=as_json)


@app.command()
def restore(
    snapshot: SnapshotArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Python files with build(spark).", show_default=False)
    ],
    *,
    prefix: Annotated[
        str | None,
        typer.Option("--as", metavar="PREFIX", help="As a copy: names, homes, groups and topics begin with PREFIX-."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Commit what is there now, then end.")] = False,
    trigger: Annotated[str | None, typer.Option(help="Epochs at this interval: 1s, 500ms.")] = None,
    master: Annotated[str | None, typer.Option(help="Spark's master. Default: local[*].")] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence a living driver of the same home at once.")
    ] = False,
    outputs_apart: Annotated[
        bool,
        typer.Option(
            "--outputs-apart", help="With --as: sinks of your own write elsewhere in a copy, as the file says."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the snapshot's pipelines from where it was taken. The same command starts a copy again later."""
    from onceward.cli.run import told
    from onceward.kafka.copies import building
    from onceward.pipeline import host
    from onceward.pipeline.session import end, session
    from onceward.snapshot import restoring

    place, found = load(snapshot)
    copy = restoring.copy_of(found, prefix) if prefix is not None else None
    builds = [host.load(file) for file in files]
    spark = session("onceward-snapshot", master=master)
    try:
        with building(copy):
            made = [pipeline for build in builds for pipeline in build(spark)]
        pipelines = restoring.require_members(found, made)
        with ExitStack() as prepared:
            if copy is not None:
                made_ready = restoring.RestoredCopy(
                    spark, place, found, copy, pipelines, progress, outputs_apart=outputs_apart
                ).ready()
                restores = prepared.enter_context(made_ready)
            else:
                restores = restoring.in_place(place, found, pipelines)
            shown = prepared.enter_context(view())
            ended = host.run(
                pipelines,
                restores=restores,
                trigger="once" if once else trigger,
                take_over=take_over,
                report=shown.report,
                look=shown.look,
            )
    finally:
        end(spark)
    facts, text = told(ended)
    result(facts, text, as_json=as_json)


@contextmanager
def _wire(kafka: str | None, settings: list[str] | None) -> "Iterator[Wire | None]":
    """The brokers are named by a person, never by the snapshot: they are given credentials."""
    if kafka is None:
        if settings:
            raise typer.BadParameter("--setting goes with --kafka HOST:PORT")
        yield None
        return
    with wire_to(kafka, settings) as wire:
        yield wire


def _under_way(snapshot: Snapshot) -> str:
    offsets = sum(channel.offsets for channel in snapshot.channels)
    match len(snapshot.channels):
        case 0:
            return "no topic joins them"
        case 1:
            return f"1 channel with {offsets} offsets on its way"
        case count:
            return f"{count} channels with {offsets} offsets on their way"


def _beside(home: str) -> Path:
    if "://" in home:
        raise ConfigurationError(f"{home} is not on a local path: say where the snapshot is to be, --to PATH")
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    return Path(home).resolve().parent / f"snapshot-{moment}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
