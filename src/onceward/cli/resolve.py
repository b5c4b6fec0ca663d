"""`onceward resolve`: finish what is in doubt, without starting the pipeline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.homes import HomeArgument, home_at, sinks_from_file
from onceward.cli.output import AsJson, progress, result
from onceward.epoch import inspection

if TYPE_CHECKING:
    from onceward.epoch.contract import TwoPhaseCommitSink
    from onceward.epoch.home import Home


def resolve(
    home: HomeArgument,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", help="The pipeline's file, where its sinks cannot be made without it.")
    ] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence a living driver of the same home at once.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Do what the next start would do first: commit what was decided, abort what was not. Then let go of the home."""
    with home_at(home) as found:
        pipeline = inspection.deed_of(found).pipeline
        if file is not None:
            with sinks_from_file(file, pipeline) as sinks:
                resolved = _resolve(found, sinks, take_over=take_over)
        else:
            from onceward.pipeline.reviving import sinks_of

            entries = inspection.epochs(found, 1)
            sinks = sinks_of(entries[-1].sinks) if entries else {}
            resolved = _resolve(found, sinks, take_over=take_over) if sinks else []
    text = "\n".join(resolved) or f"{pipeline}: nothing was in doubt"
    result({"pipeline": pipeline, "resolved": resolved}, text, as_json=as_json)


def _resolve(home: "Home", sinks: "dict[str, TwoPhaseCommitSink]", *, take_over: bool) -> list[str]:
    from onceward.epoch.contract import Guarantee
    from onceward.pipeline.opening import take_over as take_home_over

    deed = inspection.deed_of(home)
    opened = take_home_over(home, deed.pipeline, Guarantee(deed.guarantee), sinks, at_once=take_over, report=progress)
    opened.close()
    return list(opened.taken.resolved)
