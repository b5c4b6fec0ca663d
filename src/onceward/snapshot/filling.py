"""What was on its way, put into a copy's own topics: one transaction, with a marker that says it is done."""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.checkpoint import as_text
from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.epoch.coordinator import Attempted, Coordinator
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.errors import FINAL, SnapshotDamaged, SnapshotUnusable
from onceward.kafka.batch import BatchHeader
from onceward.kafka.copies import Copy
from onceward.kafka.walking import batches, headers
from onceward.kafka.wire import Cluster, Wire
from onceward.savepoint.manifest import Savepoint
from onceward.sinks.kafka import KafkaSink
from onceward.snapshot.manifest import Member, OnItsWay, Snapshot
from onceward.snapshot.verifying import in_the_topics

Positions = dict[TopicPartition, dict[int, int]]


@dataclass(frozen=True, slots=True)
class Range:
    """What is on its way in one partition, for all who read it, and where each of them is."""

    place: TopicPartition
    start: int
    end: int
    positions: frozenset[int]


def ranges(channels: Iterable[OnItsWay], reads: Mapping[str, Mapping[TopicPartition, set[int]]]) -> list[Range]:
    """Several who read a topic are at several places in it: the copy's topic begins with the earliest.

    `reads`: all positions that a consumer's sources have.
    """
    found: dict[TopicPartition, list[Range]] = {}
    for channel in channels:
        for partition, start, end in channel.ranges:
            place = TopicPartition(channel.topic, partition)
            at = frozenset({start, *reads[channel.consumer].get(place, ())})
            found.setdefault(place, []).append(Range(place, start, end, at))
    return [
        Range(
            place,
            start=min(it.start for it in each),
            end=max(it.end for it in each),
            positions=frozenset().union(*(it.positions for it in each)),
        )
        for place, each in sorted(found.items())
    ]


class _NoJournal:
    """One sink, and it decides: there is nobody else whose vote had to be kept."""

    def open(self) -> None: ...
    def ready(self) -> None: ...
    def prepare(self, attempted: Attempted) -> None: ...
    def decide(self, attempted: Attempted) -> None: ...


@dataclass(slots=True)
class Filling:
    """The topics of one pipeline of the copy. `source`: the options of a Kafka source that may read the originals."""

    spark: SparkSession
    snapshot: Snapshot
    savepoints: Mapping[str, Savepoint]
    member: Member
    copy: Copy
    cluster: Cluster
    ranges: Sequence[Range]
    source: Mapping[str, str]

    def fill(self) -> Positions:
        """Make the topics as the originals are, put in what was on its way, and say where each position is now.

        Harmless if it was done before. The copy's pipelines may then have written more behind it.
        """
        names = sorted(self.member.writes)
        filler = KafkaSink(
            self.cluster.bootstrap,
            topic=self.copy.name(names[0]),
            partitioning="preserve",
            settings=self.cluster.settings,
        )
        try:
            self._make_topics(filler.wire, names)
            filler.open(self._owner())
            self._fill_once(filler)
            return {it.place: self._moved(filler, it) for it in self.ranges}
        finally:
            filler.close()

    def _make_topics(self, wire: Wire, names: Sequence[str]) -> None:
        layouts = wire.layouts(names)
        if gone := [name for name in names if name not in layouts]:
            raise SnapshotUnusable(f"topics that {self.member.pipeline!r} writes are gone: {', '.join(gone)}")
        for name in names:
            layout = layouts[name]
            wire.create_topics([self.copy.name(name)], layout.partitions, layout.replicas, layout.settings)

    def _owner(self) -> Owner:
        return Owner(
            pipeline=f"{self.copy.prefix}-{self.member.pipeline}-restore",
            lineage=self.snapshot.id,
            term=1,
            guarantee=Guarantee.EXACTLY_ONCE,
            sink="kafka",
        )

    def _fill_once(self, filler: KafkaSink) -> None:
        last = filler.last_commit()
        if last is not None and last.lineage == self.snapshot.id:
            return
        self._require_empty(filler, had_another=last is not None)
        self._require_there(filler.wire)
        records = self._between([it for it in self.ranges if it.start < it.end])
        coordinator = Coordinator(
            {"kafka": filler}, is_final=lambda error: isinstance(error, FINAL), clock=time.monotonic, sleep=time.sleep
        )
        coordinator.carry_out(
            EpochContext(epoch=0), lambda _: nullcontext({"kafka": records}), _NoJournal(), lambda _: Outcome()
        )

    def _require_empty(self, filler: KafkaSink, *, had_another: bool) -> None:
        """But for what interrupted tries of this very restore have left, each with its end: aborted.

        A committed one whose marker is gone (offsets of an idle group expire) would be filled in a second time.
        """
        mine = _producer_id(filler)
        for place, end in filler.wire.ends(map(self.copy.name, self.member.writes)).items():
            found = batches(filler.wire, place, 0, end)
            counts = (it for it, aborts in found if it.producer_id != mine or (it.is_control and not aborts))
            if had_another or next(counts, None) is not None:
                raise SnapshotUnusable(
                    f"topic {place.topic!r} holds something already, and not of this snapshot, or of a restore whose "
                    "marker is gone: choose another --as PREFIX, or delete the topic if nobody needs it"
                )

    def _require_there(self, wire: Wire) -> None:
        """The very topics of the snapshot, with all that was on its way: names and offsets alone may be another's."""
        mine = [channel for channel in self.snapshot.channels if channel.producer == self.member.pipeline]
        if wrong := [reason for channel in mine for reason in in_the_topics(channel, self.savepoints, wire)]:
            raise SnapshotDamaged(f"the snapshot can no longer be restored: {'; '.join(wrong)}")

    def _moved(self, filler: KafkaSink, it: Range) -> dict[int, int]:
        """In the copy's partition the records stand in the same order, from where this transaction's begin."""
        place = TopicPartition(self.copy.name(it.place.topic), it.place.partition)
        mine = _producer_id(filler)
        end = filler.wire.ends([place.topic])[place]
        ours = [batch for batch in headers(filler.wire, place, 0, end) if batch.producer_id == mine]
        base = _begins(ours)
        return {position: base + self._committed_before(it, position) for position in it.positions}

    def _committed_before(self, it: Range, position: int) -> int:
        if position == it.start:
            return 0
        return self._between([Range(it.place, it.start, position, frozenset())]).count()

    def _between(self, wanted: Sequence[Range]) -> DataFrame:
        """The committed records of the originals as rows for the copy's topics, in order within each partition."""
        columns = "key binary, value binary, headers array<struct<key:string,value:binary>>, topic string"
        if not wanted:
            return self.spark.createDataFrame([], f"{columns}, partition int, timestamp timestamp")
        partitions: dict[str, list[int]] = {}
        for it in wanted:
            partitions.setdefault(it.place.topic, []).append(it.place.partition)
        options = {
            **{name: value for name, value in self.source.items() if name.startswith("kafka.")},
            "assign": json.dumps(partitions),
            "startingOffsets": as_text({it.place: it.start for it in wanted}),
            "endingOffsets": as_text({it.place: it.end for it in wanted}),
            "includeHeaders": "true",
            "kafka.isolation.level": "read_committed",
            "failOnDataLoss": "true",
        }
        return (
            self.spark.read.format("kafka")
            .options(**options)
            .load()
            .selectExpr(
                "key", "value", "headers", f"concat('{self.copy.prefix}-', topic) as topic", "partition", "timestamp"
            )
        )


def _producer_id(filler: KafkaSink) -> int:
    """The same at every try: it belongs to the transactional id."""
    assert filler.transactor is not None
    return filler.transactor.identity.producer_id


def _begins(batches: Sequence[BatchHeader]) -> int:
    """The first offset of the last transaction: aborted ones are before it, and it alone was committed."""
    data = [batch for batch in batches if not batch.is_control]
    newest = max((batch.producer_epoch for batch in data), default=0)
    return min((batch.base_offset for batch in data if batch.producer_epoch == newest), default=0)
