"""Whether a snapshot is what it says: its files, what they say of each other, and the topics themselves."""

from collections.abc import Mapping

from onceward.epoch.checkpoint import NOTES, kafka_positions
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.source_topics import FILE as SOURCES
from onceward.epoch.source_topics import ids_in
from onceward.errors import SavepointDamaged, SavepointUnusable, SnapshotDamaged
from onceward.kafka.cluster_facts import producer_id
from onceward.kafka.offsets import EARLIEST, LATEST, offsets
from onceward.kafka.walking import batches
from onceward.kafka.wire import Wire
from onceward.savepoint.manifest import CHECKPOINT, Savepoint
from onceward.savepoint.manifest import FILE as SAVEPOINT_FILE
from onceward.savepoint.place import Place
from onceward.savepoint.verifying import verify as verify_savepoint
from onceward.sinks.kafka.boundaries import boundaries_in, topic_ids_in
from onceward.snapshot.histories import are_joined, vote_of
from onceward.snapshot.manifest import FILE, PIPELINES, OnItsWay, Snapshot, checksum, savepoint_of


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
    wrong += [f"{name} is not of it" for name in _strange(place, snapshot)]
    if not wrong:
        wrong = _left_out(place, snapshot, savepoints)
    if not wrong:
        wrong = [reason for channel in snapshot.channels for reason in _contradictions(channel, savepoints)]
    if not wrong and wire is not None:
        wrong = [reason for channel in snapshot.channels for reason in in_the_topics(channel, savepoints, wire)]
    if wrong:
        raise SnapshotDamaged(f"{place.location}: {'; '.join(wrong)}")
    return savepoints


def _strange(place: Place, snapshot: Snapshot) -> list[str]:
    """What is inside of a savepoint is told with it."""
    ours = {member.pipeline for member in snapshot.members}
    names = {*place.walk(""), *place.names("")} - {FILE, PIPELINES}
    names |= {f"{PIPELINES}/{name}" for name in place.names(PIPELINES)}
    parts = (name.split("/") for name in sorted(names))
    return ["/".join(found) for found in parts if not (found[0] == PIPELINES and len(found) > 1 and found[1] in ours)]


def _left_out(place: Place, snapshot: Snapshot, savepoints: Mapping[str, Savepoint]) -> list[str]:
    """A channel that the savepoints tell of, and the snapshot does not: what was on its way there would be lost."""
    told = {(channel.topic, channel.producer, channel.consumer) for channel in snapshot.channels}
    wrong = []
    for producer in snapshot.members:
        unknown = topic_ids_in(vote_of(savepoints[producer.pipeline].entry)).items() - producer.writes.items()
        wrong += [
            f"nothing is said of topic {topic!r}, which {producer.pipeline} writes" for topic, _ in sorted(unknown)
        ]
        for consumer in snapshot.members:
            data = savepoint_of(place, consumer.pipeline).read(f"{CHECKPOINT}/{NOTES}/{SOURCES}")
            ids, positions = ids_in(data), kafka_positions(savepoints[consumer.pipeline].entry.positions)
            reads = {at.topic: ids.get(at.topic, "") for at in positions}
            wrong += [
                f"nothing is said of what was on its way from {producer.pipeline} to {consumer.pipeline} in {topic!r}"
                for topic, number in sorted(producer.writes.items())
                if are_joined(topic, number, reads) and (topic, producer.pipeline, consumer.pipeline) not in told
            ]
    return wrong


def _contradictions(channel: OnItsWay, savepoints: Mapping[str, Savepoint]) -> list[str]:
    """Positions and boundaries are in the savepoints too, each with a checksum of its own."""
    reads = kafka_positions(savepoints[channel.consumer].entry.positions)
    furthest = kafka_positions(savepoints[channel.consumer].entry.positions, max)
    stood = boundaries_in(vote_of(savepoints[channel.producer].entry))
    wrong = []
    for partition, start, end in channel.ranges:
        place = TopicPartition(channel.topic, partition)
        if start != reads.get(place, 0):
            wrong.append(f"{channel.consumer} had read {place} up to {reads.get(place, 0)}, not {start}")
        ends = max(furthest.get(place, 0), stood.get(place, end))
        if ends != end:
            wrong.append(f"what is on its way in {place} ends at {ends}, not {end}")
    told = {TopicPartition(channel.topic, partition) for partition, _, _ in channel.ranges}
    left_out = {place for place in (*reads, *stood) if place.topic == channel.topic} - told
    return wrong + [f"nothing is said of {place}, which {channel.consumer} reads" for place in sorted(left_out)]


def in_the_topics(channel: OnItsWay, savepoints: Mapping[str, Savepoint], wire: Wire) -> list[str]:
    """It is the same topic, what is on its way is still there, and no later transaction begins before its end.

    Every transaction of a producer has an epoch of its own, one more than the last, in each of its record batches. That
    of the saved epoch is in its vote: up to the boundary there must be no younger one, and none but younger ones after.
    These numbers end at 32,767; then the pipeline goes on under another producer id, the one that it has now.
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
            wrong += _straddling(channel, savepoints[channel.producer], place, begins.get(place, 0), wire)
    return wrong


def _may_be_ours(number: int, then: int, now: int | None) -> bool:
    """Producer ids rise: between the one at the saved epoch and today's a pipeline may have had others."""
    return number > then and (now is None or number < now)


def _straddling(channel: OnItsWay, saved: Savepoint, place: TopicPartition, begins: int, wire: Wire) -> list[str]:
    start, end = next((since, upto) for partition, since, upto in channel.ranges if partition == place.partition)
    vote = vote_of(saved.entry)
    if "producer_id" not in vote:  # a replayed epoch: its transaction is not known by name
        return []
    mine = int(vote["producer_id"]), int(vote["producer_epoch"])
    now = producer_id(wire, channel.producer)
    first = max(begins, min(start, boundaries_in(vote).get(place, start)))  # a reader may stand behind the boundary
    wrong: list[str] = []
    pending: list[str] = []  # of a transaction whose end has not come
    is_past = False
    for batch, aborts in batches(wire, place, first, offsets(wire, [place.topic], LATEST)[place]):
        if batch.producer_id not in (mine[0], now):
            if batch.base_offset < end and batch.is_transactional and _may_be_ours(batch.producer_id, mine[0], now):
                wrong.append(
                    f"{place} at {batch.base_offset} is of producer {batch.producer_id}: whether that is a later epoch "
                    f"of {channel.producer} than {saved.epoch} cannot be told"
                    f"{'' if now is not None else ' without the right to describe its transactional id'}"
                )
            continue
        is_later = batch.producer_id != mine[0] or batch.producer_epoch > mine[1]
        if batch.is_control:
            wrong += [] if aborts else pending
            pending = []
            if is_past:
                break
            continue
        if batch.base_offset < end and is_later:
            pending.append(
                f"{place} at {batch.base_offset} is of a later epoch of {channel.producer} than {saved.epoch}"
            )
        if batch.last_offset >= end and not is_later:
            pending.append(
                f"{place} at {batch.last_offset} is of epoch {saved.epoch} of {channel.producer}, or of an earlier one"
            )
        is_past = is_past or (batch.base_offset >= end and is_later)
    return wrong + pending
