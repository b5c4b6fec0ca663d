"""Ending one lineage of a home and beginning the next: what a restore and a reset have in common.

Refused, nothing and nobody is disturbed. Then the sinks are taken over, so that nobody can add to them any more, and
what they hold is written into the new lineage's deed: known, and not its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import cast

from onceward.epoch import deeds, inspection
from onceward.epoch.contract import DecidingSink, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed
from onceward.epoch.home import LINEAGES, Home
from onceward.epoch.ledger import Entry
from onceward.errors import ForeignLineage

Sinks = Mapping[str, TwoPhaseCommitSink]


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
