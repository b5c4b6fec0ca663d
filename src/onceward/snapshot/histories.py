"""What the homes of running pipelines say about their last epochs, and which topics join them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from onceward.epoch import inspection, query_shape
from onceward.epoch.checkpoint import NOTES, Checkpoint, kafka_positions
from onceward.epoch.contract import Guarantee
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home, require_name
from onceward.epoch.ledger import DONE, Entry, SinkEntry
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.source_topics import FILE as SOURCES
from onceward.epoch.source_topics import ids_in
from onceward.errors import ConfigurationError, InvalidName, LedgerCorrupt, SnapshotUnusable
from onceward.kafka.patterns import matches, said
from onceward.savepoint.creating import NEWEST, require_savable, savable_epochs
from onceward.sinks.kafka.boundaries import IDS, boundaries_in, topic_ids_in, written_in
from onceward.snapshot.cut import Channel, Epoch, History, NoCut

PATTERN: Final = "subscribepattern="  # as a query's shape tells its source


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One pipeline, as its home tells."""

    home: Home
    deed: Deed
    history: History
    reads: Mapping[str, str]  # topics with their ids, where they are known
    writes: Mapping[str, str]
    knows_topics: bool  # False: what it writes is not told by any of its last epochs
    patterns: Collection[str] = ()  # by which it reads topics, also such as it has not met yet

    @property
    def name(self) -> str:
        return self.deed.pipeline


def observe(home: Home) -> Observed:
    """Changes nothing; a moment later there is more."""
    deed = require_savable(home)
    try:
        require_name(deed.pipeline)  # it is to be a directory's name
    except InvalidName as error:
        raise LedgerCorrupt(f"the deed of {home.location} is forged: {error}") from error
    if deed.guarantee != Guarantee.EXACTLY_ONCE.value:
        raise SnapshotUnusable(
            f"pipeline {deed.pipeline!r} in {home.location} promises {deed.guarantee}: what it writes after a restore "
            "would not be what it wrote, so no snapshot with it is consistent. Run it exactly-once, or leave it out."
        )
    room = home.of_lineage(deed)
    savable = {entry.epoch for entry in savable_epochs(home, deed, Checkpoint.newest(room))}
    entries = without_gaps([it for it in inspection.ledger_of(home, deed).newest(NEWEST) if it.phase == DONE])
    ids = ids_in(Checkpoint.noted(room, SOURCES))
    history = history_of(deed.pipeline, entries, savable)
    topics = {place.topic for epoch in history.epochs for place in epoch.positions}
    writes = {name: number for entry in entries for name, number in topic_ids_in(vote_of(entry)).items()}
    return Observed(
        home=home,
        deed=deed,
        history=history,
        reads={topic: ids.get(topic, "") for topic in topics},
        writes=writes,
        knows_topics=any(_names_topics(entry) for entry in entries),
        patterns=_patterns(room),
    )


def boundaries_of(entries: list[Entry]) -> dict[int, dict[TopicPartition, tuple[int, ...]]]:
    """What snapshots take for the end of each epoch's output: where it stood, and where it went on."""
    told = History(pipeline="", epochs=[epoch_of(entry) for entry in without_gaps(entries)])
    places = {place for epoch in told.epochs for place in (*epoch.boundaries, *epoch.written)}
    found: dict[int, dict[TopicPartition, tuple[int, ...]]] = {}
    for epoch in told.epochs:
        for place in places:
            known = {epoch.boundaries.get(place), told.boundary(epoch.number, place)} - {None}
            found.setdefault(epoch.number, {})[place] = tuple(it for it in known if it is not None)
    return found


def require_apart(observed: Sequence[Observed]) -> None:
    """Each pipeline once; each topic with one writer among them, or nobody could tell whose records are whose."""
    homes: dict[str, str] = {}
    writers: dict[str, str] = {}
    for one in observed:
        if one.name in homes:
            raise ConfigurationError(
                f"{homes[one.name]} and {one.home.location} are both of pipeline {one.name!r}: give each pipeline once"
            )
        homes[one.name] = one.home.location
        for topic, number in one.writes.items():
            if (other := writers.setdefault(number, one.name)) != one.name:
                raise SnapshotUnusable(
                    f"pipelines {other!r} and {one.name!r} both write topic {topic!r}: which of its records belong to "
                    "the snapshot could not be told by an offset. Give each a topic of its own; one pipeline can read "
                    "both."
                )


def require_named(observed: Sequence[Observed]) -> None:
    """A topic that one writes and another will read by a pattern, perhaps has not met yet: what is there is on its way.

    Nobody could tell from which offset on, so such a snapshot would lose it.
    """
    for reader in observed:
        for writer in observed:
            for pattern, topic in ((it, topic) for it in reader.patterns for topic in sorted(writer.writes)):
                if matches(pattern, topic):
                    raise SnapshotUnusable(
                        f"pipeline {reader.name!r} reads by the pattern {said(pattern)!r}, which fits topic {topic!r} "
                        f"of pipeline {writer.name!r}: what is on its way can only be saved where topics are named. "
                        "Let it read topics=[...], or leave one of the two out."
                    )


def require_told(one: Observed) -> None:
    """A topic that nobody knows of would take along what is on its way in it."""
    if one.history.epochs and not one.knows_topics:
        raise NoCut(f"pipeline {one.name!r} has not said yet which topics it writes; its next epoch will")
    named = {place.topic for epoch in one.history.epochs for place in epoch.written}
    if unknown := sorted(named - one.writes.keys()):
        raise NoCut(
            f"pipeline {one.name!r} has written topic {unknown[0]!r} and has not said which one that is; its next "
            "epoch that writes there will"
        )


def channels(observed: Sequence[Observed]) -> list[Channel]:
    """Every topic that one of them writes and one of them reads."""
    return [
        Channel(topic=topic, topic_id=number, producer=producer.name, consumer=consumer.name)
        for producer in observed
        for topic, number in sorted(producer.writes.items())
        for consumer in observed
        if are_joined(topic, number, consumer.reads)
    ]


def are_joined(topic: str, number: str, reads: Mapping[str, str]) -> bool:
    """Whether a topic that one pipeline writes is one that another reads; an id that is not known may be any."""
    return topic in reads and reads[topic] in ("", number)


def history_of(pipeline: str, entries: Iterable[Entry], savable: Collection[int]) -> History:
    """What a ledger's entries, which follow each other, say for a cut."""
    epochs = [epoch_of(entry, is_savable=entry.epoch in savable) for entry in entries]
    return History(pipeline=pipeline, epochs=epochs)


def without_gaps(entries: list[Entry]) -> list[Entry]:
    """The last ones that follow each other."""
    first = len(entries) - 1
    while first > 0 and entries[first - 1].epoch == entries[first].epoch - 1:
        first -= 1
    return entries[max(first, 0) :]


def epoch_of(entry: Entry, *, is_savable: bool = True) -> Epoch:
    """What an entry of the ledger says of positions and boundaries."""
    vote, part = vote_of(entry), _deciding(entry)
    spans = written_in(vote)
    counted = part.outcome.partitions if part is not None else {}
    written = {place: spans.get(place) for place, found in counted.items() if found.rows}
    return Epoch(
        number=entry.epoch,
        positions=kafka_positions(entry.positions),
        furthest=kafka_positions(entry.positions, max),
        boundaries=boundaries_in(vote),
        written={**written, **spans},
        is_told=_is_told(entry),
        is_savable=is_savable,
    )


def _patterns(room: Home) -> list[str]:
    shape = query_shape.read(Checkpoint.noted(room, query_shape.FILE))
    if shape is None:
        raise SnapshotUnusable(
            f"{room.location} has lost {NOTES}/{query_shape.FILE} in its checkpoint: what its query reads by a pattern "
            "cannot be told. Restore the checkpoint from a backup of the home."
        )
    return [pattern for source in shape.sources if (pattern := source.partition(PATTERN)[2])]


def _names_topics(entry: Entry) -> bool:
    """By its vote; or there is no Kafka sink, which would decide."""
    return IDS in vote_of(entry) or (entry.decider is None and bool(entry.sinks))


def _is_told(entry: Entry) -> bool:
    """Whether it is known where in Kafka it wrote, at least by partitions."""
    if entry.decider is None:
        return bool(entry.sinks)  # none of them is Kafka
    part = _deciding(entry)
    return part is not None and (bool(part.committable) or not part.rows or bool(part.partitions))


def vote_of(entry: Entry) -> Mapping[str, Any]:
    """Of the Kafka sink, which is the one that decides; empty if there is none, or if it was not noted."""
    part = _deciding(entry)
    return part.committable if part is not None else {}


def _deciding(entry: Entry) -> SinkEntry | None:
    """Of an epoch that a person vouched for there is none."""
    return entry.sinks.get(entry.decider) if entry.decider is not None else None
