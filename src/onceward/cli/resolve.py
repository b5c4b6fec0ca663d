"""`onceward resolve`: finish what is in doubt, without starting the pipeline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.destinations import ConfirmOption, require_confirmed
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
        Path | None, typer.Option("--file", help="The pipeline's file: the sinks are taken from it, not from the home.")
    ] = None,
    confirm: ConfirmOption = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="Fence a living driver of the same home at once.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Do what the next start would do first: commit what was decided, abort what was not. Then release the home.

    Without --file the sinks are made from what the home says of them: only Onceward's own, and only once you have
    confirmed where they lead.
    """
    with home_at(home) as found:
        pipeline = inspection.deed_of(found).pipeline
        if file is not None:
            with sinks_from_file(file, pipeline) as sinks:
                resolved = _resolve(found, sinks, take_over=take_over)
        else:
            sinks = _revived(found, confirm)
            resolved = _resolve(found, sinks, take_over=take_over) if sinks else []
    text = "\n".join(resolved) or f"{pipeline}: nothing was in doubt"
    result({"pipeline": pipeline, "resolved": resolved}, text, as_json=as_json)


def _revived(home: "Home", confirm: str | None) -> "dict[str, TwoPhaseCommitSink]":
    from onceward.pipeline.reviving import revival

    entries = inspection.epochs(home, 1)
    known = [revival(name, part) for name, part in sorted(entries[-1].sinks.items())] if entries else []
    require_confirmed(known, confirm)
    return {it.name: it.settings.make() for it in known}


def _resolve(home: "Home", sinks: "dict[str, TwoPhaseCommitSink]", *, take_over: bool) -> list[str]:
    from onceward.epoch.contract import Guarantee
    from onceward.epoch.starting import Start
    from onceward.pipeline.opening import THIS_PROCESS
    from onceward.pipeline.opening import take_over as take_home_over

    deed = inspection.deed_of(home)
    start = Start(
        home=home, pipeline=deed.pipeline, guarantee=Guarantee(deed.guarantee), sinks=sinks, process=THIS_PROCESS,
        at_once=take_over, report=progress,
    )  # fmt: skip
    opened = take_home_over(start)
    opened.close()
    return list(opened.taken.resolved)
