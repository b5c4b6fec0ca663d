"""Whether a snapshot is what it says: its files, what they say of each other, and the topics themselves."""

from collections.abc import Mapping

from onceward.epoch.checkpoint import kafka_positions
from onceward.epoch.outcome import TopicPartition
from onceward.errors import SavepointDamaged, SavepointUnusable, SnapshotDamaged
from onceward.kafka.fetching import headers
from onceward.kafka.offsets import EARLIEST, LATEST, offsets
from onceward.kafka.wire import Wire
from onceward.savepoint.manifest import FILE as SAVEPOINT_FILE
from onceward.savepoint.manifest import Savepoint
from onceward.savepoint.place import Place
from onceward.savepoint.verifying import verify as verify_savepoint
from onceward.sinks.kafka.boundaries import boundaries_in
from onceward.snapshot.manifest import FILE, PARTS, PIPELINES, OnItsWay, Snapshot, checksum, load, savepoint_of


def verify(place: Place, snapshot: Snapshot, wire: Wire | None = None) -> dict[str, Savepoint]:
    """Read everything; `SnapshotDamaged` names what is wrong. With a connection, look into the topics as well."""
    wrong: list[str] = []
    savepoints: dict[str, Savepoint] = {}
    for member in snapshot.members:
        at = savepoint_of(place, member.pipeline)
        try:
            saved = verify_savepoint(at)
        except (SavepointDamaged, SavepointUnusable) as error:
            wrong.append(str(error))
            continue
        told = (saved.id, saved.pipeline, saved.lineage, saved.epoch)
        if told != (member.savepoint, member.pipeline, member.lineage, member.epoch) or (
            checksum(at.read(SAVEPOINT_FILE) or b"") != member.sha256
        ):
            wrong.append(f"{PIPELINES}/{member.pipeline} is another savepoint than {FILE} names")
        savepoints[member.pipeline] = saved
    strange = [name for name in place.names() if name not in PARTS]
    strange += [
        f"{PIPELINES}/{name}" for name in place.around.names(f"{place.name}/{PIPELINES}") if name not in savepoints
    ]
    wrong += [f"{name} is not of it" for name in strange if not wrong]
    if not wrong:
        wrong = [reason for channel in snapshot.channels for reason in _contradictions(channel, savepoints)]
    if not wrong and wire is not None:
        wrong = [reason for channel in snapshot.channels for reason in in_the_topics(channel, savepoints, wire)]
    if wrong:
        raise SnapshotDamaged(f"{place.location}: {'; '.join(wrong)}")
    return savepoints


def _contradictions(channel: OnItsWay, savepoints: Mapping[str, Savepoint]) -> list[str]:
    """Positions and boundaries are in the savepoints too, each with a checksum of its own."""
    reads = kafka_positions(savepoints[channel.consumer].entry.positions)
    furthest = kafka_positions(savepoints[channel.consumer].entry.positions, max)
    stood = _boundaries(savepoints[channel.producer])
    wrong = []
    for partition, start, end in channel.ranges:
        place = TopicPartition(channel.topic, partition)
        if start != reads.get(place, 0):
            wrong.append(f"{channel.consumer} had read {place} up to {reads.get(place, 0)}, not {start}")
        if furthest.get(place, 0) > end or stood.get(place, end) > end:
            wrong.append(f"the cut is not consistent in {place}: what is on its way ends at {end}")
    left_out = {place for place in reads if place.topic == channel.topic} - {
        TopicPartition(channel.topic, partition) for partition, _, _ in channel.ranges
    }
    return wrong + [f"nothing is said of {place}, which {channel.consumer} reads" for place in sorted(left_out)]


def in_the_topics(channel: OnItsWay, savepoints: Mapping[str, Savepoint], wire: Wire) -> list[str]:
    """It is the same topic, what is on its way is still there, and no later transaction begins before its end.

    Every transaction of a producer has an epoch of its own, one more than the last, in each of its record batches. That
    of the saved epoch is in its vote: up to the boundary there must be no younger one, and none but younger ones after.
    """
    found = wire.topic_ids([channel.topic]).get(channel.topic)
    if found != channel.topic_id:
        was = "was deleted" if found is None else f"was deleted and made again (id {found}, not {channel.topic_id})"
        return [f"topic {channel.topic!r} {was}: what was on its way is gone"]
    begins, ends = offsets(wire, [channel.topic], EARLIEST), offsets(wire, [channel.topic], LATEST)
    wrong = []
    for partition, start, end in channel.ranges:
        place = TopicPartition(channel.topic, partition)
        if start < end and begins.get(place, 0) > start:
            wrong.append(f"{place} begins at {begins[place]} now: what was on its way from {start} on was cleared away")
        elif ends.get(place, 0) < end - 1:  # the end of a transaction may not be written yet
            wrong.append(f"{place} ends at {ends.get(place, 0)}, before {end}: the topic has lost records")
        else:
            wrong += _straddling(channel, savepoints[channel.producer], place, max(start, begins.get(place, 0)), wire)
    return wrong


def _straddling(channel: OnItsWay, saved: Savepoint, place: TopicPartition, start: int, wire: Wire) -> list[str]:
    end = next(upto for partition, _, upto in channel.ranges if partition == place.partition)
    part = saved.entry.sinks.get(saved.entry.decider or "")
    vote = part.committable if part is not None else {}
    if "producer_id" not in vote:  # a replayed epoch: its transaction is not known by name
        return []
    mine = int(vote["producer_id"]), int(vote["producer_epoch"])
    wrong = []
    for batch in headers(wire, place, start, offsets(wire, [place.topic], LATEST)[place]):
        if batch.producer_id != mine[0] or batch.is_control:
            continue
        at = batch.base_offset
        if at < end and batch.producer_epoch > mine[1]:
            wrong.append(f"{place} at {at} is of a later epoch of {channel.producer} than {saved.epoch}")
        if at >= end and batch.producer_epoch <= mine[1]:
            wrong.append(f"{place} at {at} is of epoch {saved.epoch} of {channel.producer}, or of an earlier one")
        if at >= end and batch.producer_epoch > mine[1]:
            break
    return wrong


def _boundaries(saved: Savepoint) -> dict[TopicPartition, int]:
    part = saved.entry.sinks.get(saved.entry.decider or "")
    return boundaries_in(part.committable) if part is not None else {}


__all__ = ["in_the_topics", "load", "verify"]
