"""Ending one lineage of a home and beginning the next: what a restore and a reset have in common.

Refused, nothing and nobody is disturbed. Then the sinks are taken over, so that nobody can add to them any more, and
what they hold is written into the new lineage's deed: known, and not its own. What the lineage begins with is laid out
in a folder of its own; one claimed file puts it in force (docs/decisions/0015).
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, cast

from onceward import crashpoints
from onceward.epoch import deeds, inspection
from onceward.epoch.contract import DecidingSink, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed
from onceward.epoch.home import CHECKPOINTS, LINEAGES, Home
from onceward.epoch.ledger import Entry
from onceward.errors import ForeignLineage, PipelineFenced

Sinks = Mapping[str, TwoPhaseCommitSink]
FIRST: Final = f"{CHECKPOINTS}/000000"  # no term has this number, so the first start takes it over like any other


def folder_of(lineage: str, term: int) -> str:
    """Where a lineage that begins in this term keeps its files."""
    return f"{LINEAGES}/{term:06d}-{lineage}"


def look(sinks: Sinks, owner: Owner) -> dict[str, LastCommit | None]:
    """What each sink that remembers holds, whoever committed it. Whose last commit is another's is not disturbed."""
    found: dict[str, LastCommit | None] = {}
    for name, sink in sinks.items():
        if not sink.remembers:
            continue
        if isinstance(sink, DecidingSink):
            found[name] = sink.peek(owner.pipeline)
            continue
        try:
            sink.open(replace(owner, sink=name))
            found[name] = sink.last_commit()
        except ForeignLineage as foreign:
            found[name] = cast("LastCommit", foreign.last)
        finally:
            sink.close()
    return found


def in_doubt(home: Home, old: Deed, owner: Owner, sinks: Sinks) -> Entry | None:
    """The old lineage's epoch that may be decided; None: there is none, and none can become so.

    A driver of the old lineage that wakes finds its next decision closed to it.
    """
    doubt = inspection.in_doubt(home)
    if doubt is not None:
        return doubt.entry
    if any(isinstance(sink, DecidingSink) for sink in sinks.values()):
        return None
    done = inspection.ledger_of(home, old).last()
    decisions = Decisions(home.of_lineage(old).storage, old.lineage, owner.term)
    return decisions.close(done.epoch + 1 if done is not None else 0)


def fence(
    sinks: Sinks, owner: Owner, found: Mapping[str, LastCommit | None], changed: Callable[[str], Exception]
) -> None:
    """Take the sinks over, and look once more: whoever was quicker is noticed while the old lineage counts."""
    for name, sink in reversed([*sinks.items()]):
        try:
            sink.open(replace(owner, sink=name))
            other = name in found and _named(sink.last_commit()) != _named(found[name])
        except ForeignLineage:
            other = True
        if other:
            raise changed(name)


def put_in_force(home: Home, term: int, deed: Deed, lay_out: Callable[[Home], Deed], word: str) -> Deed:
    """Lay out what it begins with, then the one write that ends the old lineage. `word`: of the crash points.

    `lay_out` gives the deed once more, with what is known only then.
    """
    clear_leftovers(home, term)
    try:
        deed = lay_out(home.of_lineage(deed))
    except Exception:
        home.storage.clear(deed.folder)
        raise
    crashpoints.reach(f"{word}-ready")
    try:
        deeds.begin(home.storage, term, deed)
    except PipelineFenced:  # whatever else fails here may have happened after the one write that counts
        home.storage.clear(deed.folder)
        raise
    crashpoints.reach(f"{word}-begun")
    return deed


def clear_leftovers(home: Home, term: int) -> None:
    """What killed restores and resets have left. Only of older terms, whose slots are closed: they begin nothing more.

    A newer one may be at work beside us, if we were paused: what it is laying out is not ours to judge.
    """
    for name in home.storage.names(LINEAGES):
        number = name.partition("-")[0]
        if number.isdigit() and int(number) < term:
            found = deeds.read(home.storage, int(number)).deed
            if found is None or found.folder != f"{LINEAGES}/{name}":
                home.storage.clear(f"{LINEAGES}/{name}")


def _named(last: LastCommit | None) -> tuple[str, int] | None:
    return (last.lineage, last.epoch) if last is not None else None
