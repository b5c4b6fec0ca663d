"""A reset: the home's lineage ends, and another begins without a savepoint. No state, and positions as a person says.

What the sinks hold stays there, noted in the new lineage's deed as a restore notes it (docs/decisions/0018).
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onceward.epoch import deeds, inspection, new_lineage, skips
from onceward.epoch.checkpoint import Checkpoint, Positions, kafka_positions
from onceward.epoch.contract import DecidingSink, EpochContext, Guarantee, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Attempted, Voted
from onceward.epoch.deeds import Deed, Origin
from onceward.epoch.entries import EntryMaker
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, Entry
from onceward.epoch.lineage import Inherited
from onceward.epoch.new_lineage import FIRST
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.recovery import NEVER
from onceward.epoch.term import Term, fenced_first
from onceward.errors import HomeMismatch, ResetRefused

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resetting:
    """What is to begin. Called once the home is ours (`onceward.pipeline.opening.begin_lineage`).

    `sources`: the Kafka topics of each of the engine's sources, in its order; none for a source of another kind.
    `offsets`: where each partition begins; None: as the sources themselves say.
    `from_group`: where the last committed epoch ended, as the pipeline's group says; without a Kafka sink, the ledger.
    """

    home: Home
    pipeline: str
    guarantee: Guarantee
    sinks: Mapping[str, TwoPhaseCommitSink]
    sources: Sequence[frozenset[str]]
    offsets: Offsets | None = None
    from_group: bool = False
    now: Callable[[], str]  # the time of day, for people
    fresh: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)  # a name for the lineage
    report: Callable[[str], None] = field(default=lambda _: None)

    def meaning(self) -> list[str]:
        """For people, before anything is touched: what becomes of the state, the input and each sink.

        What decides is asked; of the other sinks the home speaks, since asking them would disturb who uses them.
        """
        deed, found = self.home.deed(), self._looked_at_first()
        last = inspection.ledger_of(self.home, deed).last() if deed is not None else None
        begins = self._begins(deed, found)
        told = [
            f"state: {self.pipeline} forgets all that its query keeps and counts epochs from 0 again",
            f"input: {_places(begins) or 'from where the source itself says (starting=), as at a first start'}",
        ]
        if deed is not None and (skipped := skips.read(self.home.of_lineage(deed).storage)):
            told.append(f"skipped records: {', '.join(str(it.place) for it in skipped)}; they are skipped no longer")
        for name, sink in self.sinks.items():
            held = found.get(name) or (last if last is not None and name in last.sinks else None)
            upto = f"keeps epochs up to {held.epoch}" if held is not None and held.epoch != NEVER else "holds no epoch"
            again = "nothing is written again" if self.from_group else sink.when_repeated()
            told.append(f"{name}: {upto}; {again}")
        return told

    def __call__(self, term: Term) -> Deed:
        """Begin the lineage. Of a reset that was overtaken on its way the rest is a consequence."""
        with fenced_first(term):
            return self._begin(term)

    def _begin(self, term: Term) -> Deed:
        old, lineage = self.home.deed(), self.fresh()
        owner = Owner(pipeline=self.pipeline, lineage=lineage, term=term.number, guarantee=self.guarantee)
        found = self._judge(old, owner)
        if old is not None:
            self._record_last(old, term, found)
        deed = Deed(
            format=deeds.FORMAT,
            pipeline=self.pipeline,
            lineage=lineage,
            guarantee=self.guarantee.value,
            folder=new_lineage.folder_of(lineage, term.number),
            origin=self._origin(old, term, _held(found)),
        )
        begins = self._begins(old, found)

        def lay_out(room: Home) -> Deed:
            self._lay_out(room, begins)
            return deed

        new_lineage.put_in_force(self.home, term.number, deed, lay_out, "reset")
        self.report(
            f"{self.pipeline}: lineage {lineage[:8]} begins, {_places(begins) or 'from where its source says'}; the "
            "next start runs it"
        )
        return deed

    def _origin(self, old: Deed | None, term: Term, inherits: Inherited) -> Origin:
        last = inspection.ledger_of(self.home, old).last() if old is not None else None
        return Origin(
            savepoint="",
            pipeline=self.pipeline,
            lineage=old.lineage if old is not None else "",
            epoch=last.epoch if last is not None else NEVER,
            begins_after=NEVER,
            first_term=term.number,
            inherits=inherits,
        )

    def _judge(self, old: Deed | None, owner: Owner) -> Mapping[str, LastCommit | None]:
        """What the sinks hold; refused, nothing and nobody is disturbed. Then nobody else can add to it any more."""
        if self.guarantee is not Guarantee.EXACTLY_ONCE:
            return {}
        if old is not None:
            self._require_none_in_doubt(old, owner)
        found = new_lineage.look(self.sinks, owner)
        self._fence(replace(owner, inherits=_held(found)), found)
        return found

    def _record_last(self, old: Deed, term: Term, found: Mapping[str, LastCommit | None]) -> None:
        """An epoch that Kafka alone has, with its marker, gets the entry that the next start would have written."""
        decider = self._decider()
        last = found.get(decider) if decider is not None else None
        if decider is None or last is None or last.lineage != old.lineage or last.outcome is None:
            return
        room, ledger = self.home.of_lineage(old), inspection.ledger_of(self.home, old)
        if ledger.read(last.epoch) is not None:
            return
        try:
            positions = Checkpoint.newest(room).positions(last.epoch)
        except HomeMismatch:  # a checkpoint that is damaged may be why it is reset
            positions = Positions("", [], last.positions)
        owner = Owner(pipeline=self.pipeline, lineage=old.lineage, term=term.number, guarantee=self.guarantee)
        entries = EntryMaker(owner, {decider: self.sinks[decider]}, decider, self.now)
        context = EpochContext(epoch=last.epoch, positions=last.positions)
        ledger.write(entries.entry(context, positions, Attempted({decider: Voted(last.outcome)}, 1), DONE))

    def _decider(self) -> str | None:
        return next((name for name, sink in self.sinks.items() if isinstance(sink, DecidingSink)), None)

    def _require_none_in_doubt(self, old: Deed, owner: Owner) -> None:
        entry = new_lineage.in_doubt(self.home, old, owner, self.sinks)
        if entry is not None:
            raise ResetRefused(
                f"epoch {entry.epoch} of {self.pipeline!r} is in doubt in {self.home.location}: a reset would throw "
                "away what may be decided. Finish it with one start of the pipeline, or with `onceward resolve`, then "
                "reset."
            )

    def _fence(self, owner: Owner, found: Mapping[str, LastCommit | None]) -> None:
        new_lineage.fence(self.sinks, owner, found, self._changed)

    def _changed(self, sink: str) -> ResetRefused:
        return ResetRefused(
            f"sink {sink!r} got another epoch of {self.pipeline!r} while it was being reset: another driver was at "
            "work, or it was set back. Nothing has changed; reset once more."
        )

    def _looked_at_first(self) -> Mapping[str, LastCommit | None]:
        if self.guarantee is not Guarantee.EXACTLY_ONCE:
            return {}
        deciding = {name: sink for name, sink in self.sinks.items() if isinstance(sink, DecidingSink)}
        owner = Owner(pipeline=self.pipeline, lineage=self.fresh(), term=0, guarantee=self.guarantee)
        return new_lineage.look(deciding, owner)

    def _begins(self, old: Deed | None, found: Mapping[str, LastCommit | None]) -> Offsets:
        """Where the input begins; empty: as the sources say."""
        return self._of_last_commit(old, found) if self.from_group else self.offsets or {}

    def _of_last_commit(self, old: Deed | None, found: Mapping[str, LastCommit | None]) -> Offsets:
        """Where the last committed epoch ended: the marker has it from the very transaction; else the ledger does."""
        wanted = frozenset[str]().union(*self.sources)
        decider = self._decider()
        last = found.get(decider) if decider is not None else None
        places = dict(last.positions) if last is not None else {}
        entry = inspection.ledger_of(self.home, old).last() if old is not None else None
        if old is not None and not wanted <= {place.topic for place in places}:
            room = self.home.of_lineage(old)
            if entry is None and not old.inherits:
                places = {}  # nothing is committed
            elif entry is None:
                places = Checkpoint.newest(room).initial()
            elif decider is None or (last is not None and (last.lineage, last.epoch) == (old.lineage, entry.epoch)):
                places = kafka_positions(entry.positions)
        if missing := sorted(wanted - {place.topic for place in places}):
            raise ResetRefused(
                f"where the last committed epoch of {self.pipeline!r} ended is not known of {', '.join(missing)}: "
                "nothing is committed, the group's offsets are gone, or another topic was read. Say where to begin "
                "(--offsets TOPIC/PARTITION=OFFSET,...), or begin as the source says, without --from-group."
            )
        if old is not None:
            self._require_all_hold(old, entry, {name: it for name, it in found.items() if name != decider})
        return {place: offset for place, offset in places.items() if place.topic in wanted}

    def _require_all_hold(self, old: Deed, entry: Entry | None, found: Mapping[str, LastCommit | None]) -> None:
        """What a sink has lost of the epochs before would not be written again by a lineage that goes on after them."""
        for name, last in found.items():
            wanted = (old.lineage, entry.epoch) if entry is not None and name in entry.sinks else old.inherits.get(name)
            if wanted is not None and (last is None or (last.lineage, last.epoch) != wanted):
                holds = "no epoch" if last is None else f"epoch {last.epoch} of lineage {last.lineage[:8]}"
                raise ResetRefused(
                    f"sink {name!r} holds {holds}, and the last committed one is {wanted[1]} of lineage "
                    f"{wanted[0][:8]}: it was emptied or restored from a backup. What it lacks would stay missing. "
                    "Restore it, or reset from an earlier place (--offsets), or from the beginning."
                )

    def _lay_out(self, room: Home, begins: Offsets) -> None:
        """As each source of the engine notes where it began: it finds the note, and begins there."""
        checkpoint = Checkpoint(room.storage, FIRST, room.uri(FIRST))
        for index, topics in enumerate(self.sources):
            mine = {place: offset for place, offset in begins.items() if place.topic in topics}
            if mine:
                checkpoint.begin_at(index, mine)


def parse_offsets(text: str) -> dict[tuple[str, int], int]:
    """`clicks/0=17,clicks/1=20`."""
    found: dict[tuple[str, int], int] = {}
    for part in text.split(","):
        place, equals, offset = part.strip().rpartition("=")
        topic, slash, partition = place.rpartition("/")
        if not (equals and slash and topic and partition.isascii() and partition.isdigit() and offset.isdigit()):
            raise ResetRefused(
                f"{part.strip()!r} does not say where to begin; write TOPIC/PARTITION=OFFSET, as in clicks/0=17"
            )
        if found.setdefault((topic, int(partition)), int(offset)) != int(offset):
            raise ResetRefused(f"{place} is given two offsets")
    return found


def _held(found: Mapping[str, LastCommit | None]) -> Inherited:
    return {name: (last.lineage, last.epoch) for name, last in found.items() if last is not None}


def _places(begins: Offsets) -> str:
    return ", ".join(f"{place.topic}/{place.partition} from {offset}" for place, offset in sorted(begins.items()))
