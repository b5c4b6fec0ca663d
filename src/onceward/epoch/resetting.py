"""A reset: a lineage without a savepoint. No state, and positions as a person says (docs/decisions/0018)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from onceward.epoch import skips
from onceward.epoch.checkpoint import Checkpoint, offsets_of
from onceward.epoch.contract import Guarantee, LastCommit
from onceward.epoch.deeds import Deed, Origin
from onceward.epoch.expected import NEVER, Held, held_by
from onceward.epoch.home import FIRST, Home
from onceward.epoch.ledger import Entry
from onceward.epoch.new_lineage import Ending, Found, NewLineage
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.places import SourcePartition, parse_partition
from onceward.epoch.sealed import seal
from onceward.epoch.source_topics import FILE, SourceTopics, of_sources, require_same
from onceward.errors import ResetRefused

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resetting:
    """What a lineage without a savepoint begins with.

    `sources`: the Kafka topics of each of the engine's sources, in its order; none for a source of another kind.
    `offsets`: where each source begins; None: as the sources themselves say.
    `from_group`: where the last committed epoch ended, as the ledger has it for each source, or the pipeline's group.
    `topics`: what the sources read now, where the positions are those of topics that are there already.
    """

    word: ClassVar[str] = "reset"
    in_doubt: ClassVar[type[Exception]] = ResetRefused
    changed: ClassVar[type[Exception]] = ResetRefused
    pipeline: str
    sources: Sequence[frozenset[str]]
    offsets: Sequence[Offsets] | None = None
    from_group: bool = False
    topics: Sequence[Mapping[str, str]] = ()

    def origin(self, ending: Ending) -> Origin:
        last = ending.last
        return Origin(
            savepoint="",
            pipeline=self.pipeline,
            lineage=ending.lineage,
            epoch=last.epoch if last is not None else NEVER,
            begins_after=NEVER,
            first_term=0,
        )

    def held(self, ending: Ending) -> Mapping[str, Held]:  # noqa: ARG002 - no savepoint, no knowledge
        return {}

    def judge(self, ending: Ending, found: Found, begun: Entry | None) -> None:  # noqa: ARG002 - what is begun is passed
        """What a sink has lost would not be written again by a lineage that goes on after it."""
        if not self.from_group or ending.deed is None:
            return
        require_same(of_sources(Checkpoint.noted(ending.room, FILE)), self.topics)
        held, decider = ending.held(), ending.decider
        for name, last in found.items():
            wanted = held.get(name)
            if wanted is None or held_by(last) == wanted:
                continue
            is_recorded = name != decider or last is None or last.lineage != ending.lineage or last.epoch < wanted[1]
            if is_recorded:  # what a decider has committed may not be on record yet
                holds = "no epoch" if last is None else f"epoch {last.epoch} of lineage {last.lineage[:8]}"
                raise ResetRefused(
                    f"sink {name!r} holds {holds}, and the last committed one is {wanted[1]} of lineage "
                    f"{wanted[0][:8]}: it was emptied or restored from a backup. What it lacks would stay missing. "
                    "Restore it, or reset from an earlier place (--offsets), or from the beginning."
                )

    def lay_out(self, room: Home, deed: Deed, ending: Ending, found: Found, begun: Entry | None) -> int:  # noqa: ARG002
        """As each source of the engine notes where it began: it finds the note, and begins there."""
        checkpoint = Checkpoint(room.storage, FIRST, room.uri(FIRST))
        for source, offsets in enumerate(self.begins(ending, found, begun)):
            if offsets:
                checkpoint.begin_at(source, offsets)
        if self.topics:
            checkpoint.notes.replace(FILE, seal(SourceTopics(ids=[dict(ids) for ids in self.topics])))
        return NEVER

    def begins(self, ending: Ending, found: Found, begun: Entry | None = None) -> Sequence[Offsets]:
        """Where each source begins; nothing: as it says itself."""
        if not self.from_group:
            return self.offsets or []
        last = found.get(ending.decider) if ending.decider is not None else None
        known = self._ends(ending, last, begun)
        return [self._of_source(source, topics, known) for source, topics in enumerate(self.sources)]

    def _ends(self, ending: Ending, last: LastCommit | None, begun: Entry | None) -> Sequence[Offsets]:
        """Where each source of the ending lineage is: after its newest epoch, done or begun, or where it began.

        last: what the deciding sink says. Of topics of one name in two clusters its group knows one place.
        """
        entry = begun or ending.last
        if last is not None and last.lineage == ending.lineage and (entry is None or last.epoch > entry.epoch):
            plan = ending.planned(last)
            return [offsets_of(text) for text in plan.texts] if plan is not None else [last.positions]
        if entry is not None and entry.positions:
            return [offsets_of(text) for text in entry.positions]
        noted = Checkpoint.newest(ending.room).begins_of_sources(0) if ending.deed is not None else []
        if any(noted) or last is None or not _is_end(last, ending.deed):
            return noted
        wanted = frozenset[str]().union(*self.sources)
        return [last.positions] if wanted <= {place.topic for place in last.positions} else noted

    def _of_source(self, source: int, topics: frozenset[str], known: Sequence[Offsets]) -> Offsets:
        """Where one source ended. Several may have read a topic of that name: then its number says which it was."""
        found: dict[TopicPartition, int] = {}
        for topic in sorted(topics):
            of_topic = [{place: at for place, at in offsets.items() if place.topic == topic} for offsets in known]
            several = sum(map(bool, of_topic)) > 1 or sum(topic in mine for mine in self.sources) > 1
            if several:
                mine = of_topic[source] if len(of_topic) == len(self.sources) else {}
            else:
                mine = next(filter(None, of_topic), {})
            if not mine:
                why = "nothing is committed, the group's offsets are gone, or another topic was read"
                raise ResetRefused(
                    f"where the last committed epoch of {self.pipeline!r} ended is not known of {topic}: "
                    f"{'several sources read a topic of that name' if several else why}. Say where to begin (--offsets "
                    "TOPIC/PARTITION=OFFSET,...), or begin as the source says, without --from-group."
                )
            found |= mine
        return found


def _is_end(last: LastCommit, deed: Deed | None) -> bool:
    """Whether a lineage that has done nothing begins where a marker of an older one says, as far as is known.

    It may be older than what other sinks have got since: its sink was out then.
    """
    origin = deed.origin if deed is not None else None
    return origin is None or held_by(last) == (origin.lineage, origin.epoch)


def meaning(reset: NewLineage, resetting: Resetting) -> list[str]:
    """For people, before anything is touched: what becomes of the state, the input and each sink."""
    ending, found = reset.look_first()
    begins = told(resetting.begins(ending, found, ending.begun))
    lines = [
        f"state: {reset.start.pipeline} forgets all that its query keeps and counts epochs from 0 again",
        f"input: {begins or 'from where the source itself says (starting=), as at a first start'}",
    ]
    if ending.deed is not None and (skipped := skips.read(Checkpoint.noted(ending.room, skips.FILE))):
        lines.append(f"skipped records: {', '.join(str(it.place) for it in skipped)}; they are skipped no longer")
    for name, sink in reset.start.sinks.items():
        last = found.get(name)
        upto = f"keeps epochs up to {last.epoch}" if last is not None and last.epoch != NEVER else "holds no epoch"
        if reset.start.guarantee is not Guarantee.EXACTLY_ONCE:
            upto = "keeps what it has"
        again = "nothing is written again" if resetting.from_group else sink.when_repeated()
        lines.append(f"{name}: {upto}; {again}")
    return lines


def parse_offsets(text: str) -> dict[tuple[int | None, str, int], int]:
    """`clicks/0=17,clicks/1=20`; `1:clicks/0=17` of the source with that number."""
    found: dict[tuple[int | None, str, int], int] = {}
    for part in text.split(","):
        written, equals, offset = part.strip().rpartition("=")
        place = parse_partition(written)
        if not equals or place is None or not (offset.isascii() and offset.isdigit()):
            raise ResetRefused(
                f"{part.strip()!r} does not say where to begin; write TOPIC/PARTITION=OFFSET, as in clicks/0=17"
            )
        if found.setdefault(place, int(offset)) != int(offset):
            raise ResetRefused(f"{written} is given two offsets")
    return found


def told(begins: Sequence[Offsets]) -> str:
    """In words; empty: as the sources say."""
    places = [
        (SourcePartition(source, *place), offset)
        for source, offsets in enumerate(begins)
        for place, offset in sorted(offsets.items())
    ]
    return ", ".join(f"{place} from {offset}" for place, offset in places)
