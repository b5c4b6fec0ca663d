"""What a home says about its epochs, to people who look and change nothing."""

from dataclasses import dataclass

from onceward.epoch import term as terms
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import FILE, Deed
from onceward.epoch.home import Home
from onceward.epoch.ledger import DECIDED, DONE, PREPARED, Entry, Ledger
from onceward.errors import HomeMismatch


@dataclass(frozen=True, slots=True)
class Doubt:
    """An epoch between its votes and its completion, and what is known of its decision."""

    entry: Entry
    decided: bool | None  # None: only the deciding sink knows


def deed_of(home: Home) -> Deed:
    """Whose home it is; an error if it is none."""
    deed = home.deed()
    if deed is None:
        raise HomeMismatch(f"{home.location} is not the home of a pipeline: it has no {FILE}")
    return deed


def epochs(home: Home, count: int) -> list[Entry]:
    """The last epochs, oldest first: done, prepared, or decided by the ledger and not done yet."""
    deed = deed_of(home)
    found = {entry.epoch: entry for entry in ledger_of(home, deed).newest(count)}
    decided = _decisions(home, deed).last()
    if decided is not None and (decided.epoch not in found or found[decided.epoch].phase != DONE):
        found[decided.epoch] = decided
    return [found[epoch] for epoch in sorted(found)][-count:]


def in_doubt(home: Home) -> Doubt | None:
    """What the next start has to resolve; at most one epoch can be."""
    deed = deed_of(home)
    return doubt_of(ledger_of(home, deed), _decisions(home, deed))


def doubt_of(ledger: Ledger, decisions: Decisions) -> Doubt | None:
    """The same, of a lineage that is already open."""
    done, decided = ledger.last(), decisions.last()
    if decided is not None and decided.phase == DECIDED and (done is None or decided.epoch > done.epoch):
        return Doubt(decided, decided=True)
    prepared = ledger.last(PREPARED)
    if prepared is not None and prepared.decider is not None and (done is None or prepared.epoch > done.epoch):
        return Doubt(prepared, decided=None)
    return None


def next_start(entry: Entry, decided: bool | None) -> str:  # noqa: FBT001 - what is known, and None is a third answer
    """What the next start will do with an epoch in doubt, in words."""
    others = ", ".join(name for name in entry.sinks if name != entry.decider)
    if decided is None:
        return f"fence, ask {entry.decided_by}, then commit it in {others}, or abort and redo it"
    if decided:
        return f"commit it in {others} (those that have it already change nothing)"
    return "abort what is staged and redo it"


def resolutions(home: Home) -> list[terms.Start]:
    """The starts that found something in doubt, oldest first."""
    return [start for start in terms.starts(home.storage) if start.resolved]


def ledger_of(home: Home, deed: Deed) -> Ledger:
    """To be read only."""
    return Ledger(home.of_lineage(deed).storage, terms.boundaries(home.storage), deed.lineage)


def _decisions(home: Home, deed: Deed) -> Decisions:
    return Decisions(home.of_lineage(deed).storage, deed.lineage, term=0)  # reads only
