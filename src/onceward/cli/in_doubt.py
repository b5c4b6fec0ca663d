"""`onceward in-doubt`: what is between its votes and its completion, and what the next start will do."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from onceward.cli.destinations import ConfirmOption, code_of, lines_of
from onceward.cli.homes import HomeArgument, home_at, sinks_from_file
from onceward.cli.output import AsJson, result
from onceward.epoch import inspection
from onceward.epoch.checkpoint import Checkpoint
from onceward.errors import ConfigurationError, OncewardError

if TYPE_CHECKING:
    from onceward.epoch.contract import TwoPhaseCommitSink
    from onceward.epoch.ledger import Entry


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of an epoch's decision, and how; `code` confirms the destination that was not asked."""

    decided: bool | None
    why: str
    code: str | None = None


def in_doubt(
    home: HomeArgument,
    *,
    file: Annotated[
        Path | None, typer.Option("--file", help="The pipeline's file: ask the deciding sink that it has.")
    ] = None,
    confirm: ConfirmOption = None,
    as_json: AsJson = False,
) -> None:
    """Show the epoch that a crash left in doubt, if any, and what the next start will do with it. Changes nothing.

    Nothing is asked over the network unless you say whom: --file, or --confirm with the code that is shown.
    """
    with home_at(home) as found:
        deed, doubt, before = inspection.deed_of(found), inspection.in_doubt(found), inspection.resolutions(found)
        planned = Checkpoint.newest(found.of_lineage(deed)).planned()
        last = inspection.epochs(found, 1)
    lines, facts = [], None
    if doubt is not None:
        entry = doubt.entry
        answer = (
            Answer(True, "the ledger has its decision") if doubt.decided else _ask(entry, deed.pipeline, file, confirm)
        )
        will = inspection.next_start(entry, answer.decided)
        facts = {
            "epoch": entry.epoch,
            "decided": answer.decided,
            "reason": answer.why,
            "confirm": answer.code,
            "next_start": will,
            "entry": msgspec.to_builtins(entry),
        }
        lines = [
            f"epoch {entry.epoch} of {deed.pipeline} is in doubt: {answer.why}",
            f"input ends at {', '.join(entry.positions)}",
            *(f"  {name}: {part.rows} rows, digest {part.digest}" for name, part in entry.sinks.items()),
            f"the next start, or `onceward resolve`, will {will}",
        ]
    else:
        lines = [f"{deed.pipeline}: no epoch is in doubt"]
        done = last[-1].epoch if last else -1
        if planned is not None and planned > done:
            lines.append(f"epoch {planned} was planned and has no votes: the next start redoes it, or finds it out")
    lines += [f"term {start.term}: {line}" for start in before[-10:] for line in start.resolved]
    resolved = [msgspec.to_builtins(start) for start in before]
    result(
        {"pipeline": deed.pipeline, "in_doubt": facts, "planned": planned, "resolved": resolved},
        "\n".join(lines),
        as_json=as_json,
    )


def _ask(entry: "Entry", pipeline: str, file: Path | None, confirm: str | None) -> Answer:
    """Kafka's marker as of now: an open transaction of a living driver may still end either way."""
    name = entry.decider
    assert name is not None  # the ledger's own decisions need nobody to be asked
    try:
        if file is not None:
            with sinks_from_file(file, pipeline) as sinks:
                if name not in sinks:
                    raise ConfigurationError(f"{file}: pipeline {pipeline!r} has no sink {name!r}")
                return _peek(entry, sinks[name], pipeline)
        from onceward.pipeline.reviving import revival

        known = revival(name, entry.sinks[name])
        code = code_of([known])
        if confirm != code:
            return Answer(
                None,
                f"every sink has voted; whether {name} has committed it was not asked. The home names "
                f"{lines_of([known])[0]}. If that is yours: --confirm {code}, or --file FILE.py",
                code,
            )
        return _peek(entry, known.settings.make(), pipeline)
    except OncewardError as error:
        return Answer(None, f"every sink has voted; whether {name} has committed it could not be asked ({error})")


def _peek(entry: "Entry", sink: "TwoPhaseCommitSink", pipeline: str) -> Answer:
    from onceward.epoch.contract import DecidingSink

    name = entry.decider
    if not isinstance(sink, DecidingSink):
        raise ConfigurationError(f"sink {name!r} ({sink!r}) decides nothing")
    try:
        last = sink.peek(pipeline)
    finally:
        sink.close()
    out = last is not None and last.lineage == entry.lineage and last.epoch >= entry.epoch
    return Answer(out, f"every sink has voted, and {name} {'has' if out else 'has not'} committed it as of now")
