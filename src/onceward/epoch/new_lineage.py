"""Ending one lineage of a home and beginning the next, with a savepoint or, after a reset, without one.

Refused, nothing and nobody is disturbed. Then the sinks are taken over, so that nobody can add to them any more, and
what each of them holds is written into the new lineage's deed, also of those that are out of the pipeline: known, and
not its own. What the lineage begins with is laid out in a folder of its own; one claimed slot puts it in force
(docs/decisions/0015).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, cast

import msgspec

from onceward import crashpoints
from onceward.epoch import deeds, inspection
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint, Positions, TornEntry
from onceward.epoch.contract import (
    DecidingSink,
    Guarantee,
    LastCommit,
    Owner,
    TwoPhaseCommitSink,
    decider_of,
)
from onceward.epoch.coordinator import Voted
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed, Origin
from onceward.epoch.entries import EntryMaker
from onceward.epoch.expected import Held, held_by, named, recorded, to_record
from onceward.epoch.home import LINEAGES, Home
from onceward.epoch.ledger import Entry
from onceward.epoch.term import Term, fenced_first
from onceward.errors import ForeignLineage

if TYPE_CHECKING:
    from onceward.epoch.starting import Start

Sinks = Mapping[str, TwoPhaseCommitSink]
Found = Mapping[str, LastCommit | None]
ALL: Final = 1_000_000  # epochs


class Ending:
    """The lineage that is in force and is to end; of a new home there is none. `decider`: the sink's name now."""

    def __init__(self, home: Home, decider: str | None) -> None:
        self.home, self.decider = home, decider
        self.deed = home.deed()
        self.room = home.of_lineage(self.deed) if self.deed is not None else home
        self._ledger = inspection.ledger_of(home, self.deed) if self.deed is not None else None

    @property
    def lineage(self) -> str:
        return self.deed.lineage if self.deed is not None else ""

    @property
    def last(self) -> Entry | None:
        """The newest epoch that is recorded as done."""
        return self._ledger.last() if self._ledger is not None else None

    @property
    def begun(self) -> Entry | None:
        """The newest epoch that the ledger has decided, or begun to write where it is written once, and not as done."""
        done, begun = self.last, Decisions(self.room.storage, self.lineage, term=0).last()
        return begun if begun is not None and (done is None or begun.epoch > done.epoch) else None

    @cached_property
    def entries(self) -> list[Entry]:
        return self._ledger.newest(ALL) if self._ledger is not None else []

    def held(self) -> dict[str, Held]:
        """What each sink must hold, as the home has it, also of those that are out of the pipeline."""
        if self.deed is None:
            return {}
        return named(recorded(self.home.storage, self.deed, self.last), self.decider)

    def close(self, owner: Owner) -> Entry | None:
        """The epoch that may be decided and is not done; None: there is none, and none can become so.

        A driver of this lineage that wakes finds its next decision closed to it. Where a sink decided, fencing it does
        the same.
        """
        if self.deed is None:
            return None
        doubt = inspection.in_doubt(self.home)
        if doubt is not None:
            return doubt.entry
        last = terms.last_start(self.home.storage)
        if owner.guarantee is Guarantee.EXACTLY_ONCE and (last is None or last.decider is not None):
            return None
        decisions, newest = Decisions(self.room.storage, self.lineage, owner.term), self.begun or self.last
        while (quicker := decisions.close(newest.epoch + 1 if newest is not None else 0)) is not None:
            newest = quicker
        return self.begun

    def record(self, entries: EntryMaker, last: LastCommit, parts: dict[str, Voted]) -> None:
        """An epoch that a sink alone has, with its marker, gets the entry that the next start would have written."""
        assert self._ledger is not None
        if self._ledger.read(last.epoch) is None:
            positions = self.planned(last) or Positions("", [], last.positions)
            entries.made_up_for(self._ledger, Checkpoint.newest(self.room), last.epoch, positions, parts)

    def planned(self, last: LastCommit) -> Positions | None:
        """The plan of an epoch that only its marker knows; None if it says otherwise: damage may be why it is reset."""
        try:
            plan = Checkpoint.newest(self.room).read(last.epoch)
        except TornEntry:
            return None
        differs = plan is None or any(plan.kafka.get(place, at) != at for place, at in last.positions.items())
        return None if differs else plan


class Beginning(Protocol):
    """What a lineage begins with."""

    word: ClassVar[str]  # what a person calls it, and its crash points
    in_doubt: ClassVar[type[Exception]]  # raised for an epoch that may be decided
    changed: ClassVar[type[Exception]]  # raised for a sink that got another epoch meanwhile

    def origin(self, ending: Ending) -> Origin:
        """Where it comes from; when and over which sinks is filled in."""

    def held(self, ending: Ending) -> Mapping[str, Held]:
        """What is known of what the pipeline's sinks hold where the home itself knows nothing."""

    def judge(self, ending: Ending, found: Found, begun: Entry | None) -> None:
        """Whether it may begin over what the sinks hold, or raise; nothing has been touched.

        begun: of a pipeline that promises at-most-once the newest epoch that may be visible and is not done.
        """

    def lay_out(self, room: Home, deed: Deed, ending: Ending, found: Found, begun: Entry | None) -> int:
        """Everything that the lineage begins with, lasting; after which epoch it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewLineage:
    """What is to begin, over which sinks. Called once the home is ours (`onceward.epoch.starting`)."""

    start: "Start"
    begins: Beginning

    def look_first(self) -> tuple[Ending, Found]:
        """Before anybody is disturbed: what decides is asked, for the other sinks the home speaks."""
        ending, found = Ending(self.start.home, decider_of(self.start.sinks)), dict[str, LastCommit | None]()
        if self.start.guarantee is Guarantee.EXACTLY_ONCE:
            deciding = {name: sink for name, sink in self.start.sinks.items() if isinstance(sink, DecidingSink)}
            found = _told(ending, self.start.sinks) | look(deciding, self._owner(self.start.process.fresh(), 0))
        self.begins.judge(ending, found, ending.begun)
        return ending, found

    def __call__(self, term: Term) -> Deed:
        """Begin the lineage. Of one that was overtaken on its way the rest is a consequence."""
        with fenced_first(term):
            return self._begin(term)

    def _begin(self, term: Term) -> Deed:
        ending = Ending(self.start.home, decider_of(self.start.sinks))
        owner = self._owner(self.start.process.fresh(), term.number)
        found, begun = self._taken_over(ending, owner)
        known = ending.held() if ending.deed is not None else self.begins.held(ending)
        absent = {name: held for name, held in known.items() if name not in found}
        held = to_record({**absent, **_held(found)}, ending.decider)
        origin = msgspec.structs.replace(self.begins.origin(ending), first_term=term.number, held=held)
        deed = Deed(
            pipeline=self.start.pipeline,
            lineage=owner.lineage,
            guarantee=self.start.guarantee.value,
            folder=f"{LINEAGES}/{term.number:06d}-{owner.lineage}",
            origin=origin,
        )
        return self._put_in_force(term, deed, ending, found, begun)

    def _owner(self, lineage: str, term: int) -> Owner:
        return Owner(pipeline=self.start.pipeline, lineage=lineage, term=term, guarantee=self.start.guarantee)

    def _taken_over(self, ending: Ending, owner: Owner) -> tuple[Found, Entry | None]:
        """What the sinks hold, and nobody else can add to any more."""
        begun = self._closed(ending, owner)
        if self.start.guarantee is not Guarantee.EXACTLY_ONCE:
            self.begins.judge(ending, {}, begun)
            return {}, begun
        if begun is not None:
            raise self.begins.in_doubt(
                f"epoch {begun.epoch} of {self.start.pipeline!r} is in doubt in {self.start.home.location}: a "
                f"{self.begins.word} would throw away what may be decided. Finish it with one start of the pipeline "
                f"as it is, or with `onceward resolve`; then {self.begins.word}."
            )
        found = look(self.start.sinks, owner)
        self.begins.judge(ending, _told(ending, self.start.sinks) | found, None)
        self._fence(replace(owner, before=_held(found)), found)
        self._record_last(ending, found, owner.term)
        return found, None

    def _closed(self, ending: Ending, owner: Owner) -> Entry | None:
        if self.start.guarantee is Guarantee.AT_LEAST_ONCE:
            return None
        return ending.close(owner)

    def _fence(self, owner: Owner, found: Found) -> None:
        """Take the sinks over, and look once more: whoever was quicker is noticed while the old lineage counts."""
        for name, sink in reversed([*self.start.sinks.items()]):
            try:
                sink.open(replace(owner, sink=name))
                other = name in found and held_by(sink.last_commit()) != held_by(found[name])
            except ForeignLineage:
                other = True
            if other:
                raise self.begins.changed(
                    f"sink {name!r} got another epoch of {self.start.pipeline!r} during the {self.begins.word}: "
                    "another driver was at work, or it was set back. Nothing has changed; do it once more."
                )

    def _record_last(self, ending: Ending, found: Found, term: int) -> None:
        name = ending.decider
        last = found.get(name) if name is not None else None
        if name is None or last is None or last.lineage != ending.lineage or last.outcome is None or last.epoch < 0:
            return
        entries = EntryMaker(
            self._owner(ending.lineage, term), {name: self.start.sinks[name]}, name, self.start.process.now
        )
        ending.record(entries, last, {name: Voted(last.outcome)})

    def _put_in_force(self, term: Term, deed: Deed, ending: Ending, found: Found, begun: Entry | None) -> Deed:
        """Lay out what it begins with, then the one write that ends the old lineage.

        Whatever fails from that write on, what was laid out stays: it may be in force.
        """
        clear_leftovers(self.start.home, term.number)
        try:
            begins_after = self.begins.lay_out(self.start.home.of_lineage(deed), deed, ending, found, begun)
        except Exception:
            self.start.home.storage.clear(deed.folder)
            raise
        assert deed.origin is not None
        deed = msgspec.structs.replace(deed, origin=msgspec.structs.replace(deed.origin, begins_after=begins_after))
        crashpoints.reach(f"{self.begins.word}-ready")
        deeds.begin(self.start.home.storage, term.number, deed)
        crashpoints.reach(f"{self.begins.word}-begun")
        return deed


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


def _told(ending: Ending, sinks: Sinks) -> dict[str, LastCommit | None]:
    """Of sinks that are not asked, or are out of the pipeline and may come back, the home says what they must hold."""
    return {
        name: LastCommit(lineage=held[0], epoch=held[1], term=0)
        for name, held in ending.held().items()
        if not isinstance(sinks.get(name), DecidingSink)
    }


def _held(found: Found) -> dict[str, Held]:
    return {name: held for name, last in found.items() if (held := held_by(last)) is not None}
