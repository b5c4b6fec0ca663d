"""One epoch in full: positions, counts and digests, votes, the decision and who made it, tries and committables."""

from collections.abc import Mapping
from contextlib import suppress

from onceward.dashboard.home_reader import HomeReader, Look
from onceward.dashboard.model import AbortedFacts, EpochDetail, PartitionFacts, Position, SinkOfEpoch
from onceward.dashboard.places import kind_of
from onceward.epoch.checkpoint import Checkpoint, TornEntry, kafka_positions
from onceward.epoch.ledger import STARTED, Entry
from onceward.epoch.outcome import TopicPartition
from onceward.errors import OncewardError
from onceward.secret import without_secrets


def epoch_of(reader: HomeReader, look: Look, epoch: int) -> EpochDetail | None:
    """Read now; None: the home knows of no such epoch, or no longer."""
    if look.deed is None or reader.index is None:
        return None
    entry = reader.index.entry(epoch)
    if entry is None:
        entry = reader.decisions(look.deed).of(epoch)
    if entry is None:
        return None
    return EpochDetail(
        epoch=entry.epoch,
        term=entry.term,
        phase=entry.phase,
        at=entry.finished_at,
        decider=entry.decider,
        decided_by=entry.decided_by,
        positions=positions_of(entry, _begins(reader, look, epoch)),
        input_rows=entry.input_rows,
        attempts=entry.attempts,
        aborted=aborted_of(reader, look, epoch),
        milliseconds=entry.milliseconds,
        sinks=_sinks(entry),
        skipped=entry.skipped,
    )


def positions_of(entry: Entry, begins: Mapping[TopicPartition, int]) -> list[Position]:
    """Each partition's range of offsets; of other sources, the end as Spark writes it."""
    found: list[Position] = []
    for text in entry.positions:
        kafka = kafka_positions([text])
        if not kafka:
            found.append(Position(raw=str(without_secrets(text))))
        for place, end in sorted(kafka.items()):
            found.append(
                Position(topic=place.topic, partition=place.partition, begins=begins.get(place), ends=end)
            )  # fmt: skip
    return found


def aborted_of(reader: HomeReader, look: Look, epoch: int) -> list[AbortedFacts]:
    """As the drivers have left it: of every term that could have tried this lineage's epoch, oldest first."""
    origin = look.deed.origin if look.deed is not None else None
    since = origin.first_term if origin is not None else 0
    terms = [term for term, start in sorted(look.starts.items()) if term >= since and start.after_epoch < epoch]
    return [
        AbortedFacts(
            attempt=event.attempt or 1, cause=event.cause, reason=str(without_secrets(event.reason)), at=event.at
        )
        for term in terms
        for event in reader.events(term)
        if event.kind == "aborted" and event.epoch == epoch
    ]


def _sinks(entry: Entry) -> list[SinkOfEpoch]:
    return [
        SinkOfEpoch(
            name=name,
            kind=kind_of(part.kind),
            rows=part.rows,
            digest=part.digest,
            voted=entry.phase != STARTED,
            partitions=[
                PartitionFacts(topic=topic, partition=partition, rows=rows, digest=digest)
                for topic, partition, rows, digest in part.partitions
            ],
            committable=without_secrets(part.committable),
            milliseconds=part.milliseconds,
        )
        for name, part in entry.sinks.items()
    ]


def _begins(reader: HomeReader, look: Look, epoch: int) -> Mapping[TopicPartition, int]:
    """Where it begins: at the end of the epoch before, by the ledger, or else by Spark's own log."""
    assert look.deed is not None
    assert reader.index is not None
    with suppress(OncewardError, OSError, TornEntry):
        before = reader.index.entry(epoch - 1)
        if before is not None and before.positions:
            return kafka_positions(before.positions)
        sources = Checkpoint.newest(reader.storage_of(look.deed)).begins_of_sources(epoch)
        return {place: offset for source in reversed(sources) for place, offset in source.items()}
    return {}
