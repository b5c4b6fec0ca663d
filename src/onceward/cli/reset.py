"""`onceward reset`: end a home's lineage and begin another, without a savepoint."""

from typing import Annotated

import typer

from onceward.cli.homes import FileOption, HomeArgument, pipeline_from_file
from onceward.cli.output import AsJson, progress, result
from onceward.epoch.resetting import parse_offsets


def reset(
    home: HomeArgument,
    *,
    file: FileOption,
    offsets: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC/PARTITION=OFFSET,...", help="Begin there; every partition is named.", show_default=False
        ),
    ] = None,
    from_group: Annotated[
        bool,
        typer.Option("--from-group", help="Begin where the last committed epoch ended, as the group's offsets say."),
    ] = False,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence a living driver of the same home at once.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Start again from zero, from offsets, or from the group's offsets: no state, and epochs from 0 on.

    What this means for each sink is said first. Nothing in a sink is deleted; the next `onceward run` begins.
    """
    with pipeline_from_file(file, home) as pipeline:
        meaning: list[str] = []

        def confirm(lines: list[str]) -> None:
            meaning.extend(lines)
            progress(f"A reset of {pipeline.name} means:\n" + "\n".join(f"  {line}" for line in lines))
            if not yes:
                typer.confirm("Reset it?", abort=True, err=True)

        begins = parse_offsets(offsets) if offsets is not None else None
        pipeline.reset(offsets=begins, from_group=from_group, take_over=take_over, confirm=confirm, report=progress)
    text = f"{pipeline.name}: reset. Start it with: onceward run {file}"
    result({"pipeline": pipeline.name, "reset": meaning}, text, as_json=as_json)
