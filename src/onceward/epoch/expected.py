"""What each sink must hold: one recorded expectation for each, the lineage and epoch of its last commit there.

A sink may forget what it has confirmed (a failover to a replica that lagged, a restored backup, expired offsets), and
it may be out of the pipeline for a while and come back. So the expectation is written down for every sink that ever
took part, where a lineage and where a term begins (`deeds.Origin.held`, `term.Start.held`); from there on the ledger's
entries say how far the sinks of that term have come. Whoever starts, runs, restores or resets compares with it.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Final

from onceward.epoch.contract import LastCommit
from onceward.epoch.deeds import Deed, Origin
from onceward.epoch.ledger import Entry
from onceward.epoch.storage import Storage
from onceward.epoch.term import starts
from onceward.errors import HomeMismatch, MarkerMissing

NEVER: Final = -1  # the epoch of a marker from before the first one
DECIDER: Final = "*"  # in place of the deciding sink's name: its marker is the pipeline's, whatever the sink is called
Held = tuple[str, int]  # a lineage, and an epoch of it


def held_by(last: LastCommit | None) -> Held | None:
    """What a sink's answer names."""
    return (last.lineage, last.epoch) if last is not None else None


def named(held: Mapping[str, Held], decider: str | None) -> dict[str, Held]:
    """As it is recorded, by the names that the sinks have now."""
    return {decider if name == DECIDER and decider is not None else name: it for name, it in held.items()}


def to_record(held: Mapping[str, Held], decider: str | None) -> dict[str, Held]:
    """The reverse; names of users and words of ours are never the same."""
    return {DECIDER if name == decider else name: it for name, it in held.items()}


def recorded(terms: Storage, deed: Deed, last: Entry | None, upto: float = inf) -> dict[str, Held]:
    """As a home has it after an epoch that the ledger has as done. `terms`: the whole home's storage.

    upto: passing over what began after that epoch.
    """
    held, since, first_term = dict[str, Held](), NEVER, 0
    if deed.origin is not None:
        held, since, first_term = dict(deed.origin.held), deed.origin.begins_after, deed.origin.first_term
    if begun := [start for start in starts(terms) if start.term >= first_term and start.after_epoch <= upto]:
        held, since = dict(begun[-1].held), begun[-1].after_epoch
    if last is not None and last.epoch > since:  # of that term, whose sinks took part in each of its epochs
        held.update(to_record(dict.fromkeys(last.sinks, (deed.lineage, last.epoch)), last.decider))
    return held


class Expected:
    """Of one lineage. `before`: what sinks held when it began."""

    def __init__(self, pipeline: str, lineage: str, held: Mapping[str, Held], before: Mapping[str, Held]) -> None:
        self._pipeline, self._lineage, self._before = pipeline, lineage, before
        self.held = dict(held)

    def is_ours(self, sink: str) -> bool:
        """Whether it must hold something of this lineage: until then it holds what it held before."""
        return sink in self.held and self.held[sink][0] == self._lineage

    def note(self, sinks: Iterable[str], epoch: int) -> None:
        """An epoch is committed in these."""
        self.held.update(dict.fromkeys(sinks, (self._lineage, epoch)))

    def believe(self, found: Mapping[str, LastCommit | None]) -> None:
        """What these hold was judged: from here on they must hold it."""
        for sink, last in found.items():
            if (held := held_by(last)) is not None:
                self.held[sink] = held
            else:
                self.held.pop(sink, None)

    def require(self, sink: str, found: LastCommit | None) -> None:
        """Nothing may have changed it since."""
        if (fault := self.fault(sink, found)) is not None:
            raise fault

    def fault(
        self, sink: str, found: LastCommit | None, decided: range = range(0)
    ) -> HomeMismatch | MarkerMissing | None:
        """Why a sink does not hold what it must. `decided`: epochs that it may also have, known or not."""
        wanted, held = self.held.get(sink), held_by(found)
        if held == wanted or (held is not None and held[0] == self._lineage and held[1] in decided):
            return None
        if held is not None and held[0] != self._lineage and held != self._before.get(sink):
            return HomeMismatch(
                f"sink {sink!r} now holds epoch {held[1]} of {self._pipeline!r} under lineage {held[0]}: another home "
                "runs under the same name. Nothing more is written; stop one of them."
            )
        ours = wanted is not None and wanted[0] == self._lineage
        if wanted is not None and (held is None or (ours and (held[0] != self._lineage or held < wanted))):
            return MarkerMissing(
                f"{self.difference(sink, found)}: it was emptied or set back (a restored backup, a failover to a "
                "replica that lagged), its marker was removed, or it is another one. Nothing more is written. Restore "
                f"what it has lost; or check what it holds, then start with --trust-ledger {sink} "
                f"(trust_ledger={sink!r}) to go on without it."
            )
        return HomeMismatch(
            f"{self.difference(sink, found)}: the home is an old copy, files of it are missing, or somebody else "
            "writes under the pipeline's name. Going on would commit epochs again. Use the newest home, or restore it "
            "from a backup."
        )

    def difference(self, sink: str, found: LastCommit | None) -> str:
        """What it must hold and what it holds, in words."""
        wanted = self.held.get(sink)
        must = f"is to hold {self._said(wanted)}" if wanted is not None else "is to hold no epoch"
        return f"sink {sink!r} of {self._pipeline!r} {must}, and {self._says(found)}"

    def _says(self, found: LastCommit | None) -> str:
        return "has no marker of it" if found is None else f"says {self._said((found.lineage, found.epoch))}"

    def _said(self, held: Held) -> str:
        what = f"epoch {held[1]}" if held[1] != NEVER else "a marker from before the first epoch"
        return what if held[0] == self._lineage else f"{what} of lineage {held[0]}"


def changes(
    held: Mapping[str, Held], lineage: str, origin: Origin | None, last: Entry | None, sinks: Iterable[str]
) -> list[str]:
    """What a start says before its first epoch, if the sinks are other ones than those of the last."""
    if last is None:
        return []
    if not last.sinks:  # a lineage that has done nothing yet: who has all that it began with?
        began = (origin.lineage, origin.epoch) if origin is not None else ("", NEVER)
        less = {
            name: mine for name in sorted(sinks) if (mine := held.get(name)) and mine[0] == began[0] and mine < began
        }
        return [_came(name, mine, *began, last.epoch) for name, mine in less.items()]
    now, before = set(sinks), set(last.sinks)
    told = [_came(name, held.get(name), lineage, last.epoch, last.epoch) for name in sorted(now - before)]
    told += [
        f"sink {name!r} is no longer part of the pipeline: it keeps what it has, epochs up to {last.epoch}, and gets "
        "no more"
        for name in sorted(before - now)
    ]
    return told


def _came(sink: str, held: Held | None, lineage: str, upto: int, last: int) -> str:
    """`upto`: what the other sinks have of that lineage. `last`: after which epoch it takes part."""
    if held is None:
        return f"sink {sink!r} is new: it gets epochs from {last + 1} on, and nothing of those up to {upto}"
    newest = held[1] if held[0] == lineage else NEVER
    away = f"epoch {upto}" if newest + 1 == upto else f"epochs {newest + 1} to {upto}"
    return f"sink {sink!r} is back: {away} went without it and will not be in it; it gets epochs from {last + 1} on"
