"""`onceward in-doubt`: what is between its votes and its completion, and what the next start will do."""

import msgspec

from onceward.cli.homes import HomeArgument, home_at
from onceward.cli.output import AsJson, result
from onceward.epoch import inspection
from onceward.epoch.home import Home
from onceward.errors import OncewardError


def in_doubt(home: HomeArgument, *, as_json: AsJson = False) -> None:
    """Show the epoch that a crash left in doubt, if any, and what the next start will do with it. Changes nothing."""
    with home_at(home) as found:
        deed, doubt, before = inspection.deed_of(found), inspection.in_doubt(found), inspection.resolutions(found)
        planned = _planned(found)
        last = inspection.epochs(found, 1)
    lines, facts = [], None
    if doubt is not None:
        entry = doubt.entry
        decided, why = (True, "the ledger has its decision") if doubt.decided else _ask(doubt, deed.pipeline)
        others = [name for name in entry.sinks if name != entry.decider]
        will = {
            True: f"commit it in {', '.join(others)} (those that have it already change nothing)",
            False: "abort what is staged and redo it",
            None: f"fence, ask {entry.decided_by}, then commit it in {', '.join(others)}, or abort and redo it",
        }[decided]
        facts = {
            "epoch": entry.epoch,
            "decided": decided,
            "reason": why,
            "next_start": will,
            "entry": msgspec.to_builtins(entry),
        }
        lines = [
            f"epoch {entry.epoch} of {deed.pipeline} is in doubt: {why}",
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


def _ask(doubt: inspection.Doubt, pipeline: str) -> tuple[bool | None, str]:
    """Kafka's marker as of now: an open transaction of a living driver may still end either way."""
    from onceward.epoch.contract import DecidingSink
    from onceward.pipeline.reviving import sink_of

    name = doubt.entry.decider
    assert name is not None  # the ledger's own decisions need nobody to be asked
    try:
        sink = sink_of(name, doubt.entry.sinks[name])
        assert isinstance(sink, DecidingSink)
        try:
            last = sink.peek(pipeline)
        finally:
            sink.close()
    except OncewardError as error:
        return None, f"every sink has voted; whether {name} has committed it could not be asked ({error})"
    out = last is not None and last.epoch >= doubt.entry.epoch
    return out, f"every sink has voted, and {name} {'has' if out else 'has not'} committed it as of now"


def _planned(home: Home) -> int | None:
    from onceward.epoch.checkpoint import Checkpoint

    return Checkpoint.newest(home).planned()
