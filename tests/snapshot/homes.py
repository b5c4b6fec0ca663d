"""Homes of pipelines that topics join, made by hand: what Spark and Onceward leave there, without either of them."""

import json
from collections.abc import Mapping
from pathlib import Path

from onceward.epoch.deeds import Deed
from onceward.epoch.ledger import DONE, Entry, Ledger, SinkEntry
from onceward.epoch.outcome import Outcome, PartitionOutcome, Span, TopicPartition
from onceward.epoch.sealed import seal
from onceward.epoch.source_topics import SourceTopics
from onceward.savepoint.place import Place
from onceward.sinks.kafka.boundaries import BOUNDARIES, IDS, WRITTEN
from onceward.snapshot.creating import create
from onceward.snapshot.manifest import Snapshot
from savepoint.homes import LINEAGE, HandMade, now

Offsets = Mapping[str, Mapping[int, int]]  # by topic and partition
KAFKA = "onceward.sinks.kafka.sink:KafkaSink"


def id_of(topic: str) -> str:
    return f"id-of-{topic}"


class Joined(HandMade):
    """The home of one of several pipelines."""

    def __init__(self, folder: Path, name: str, *, guarantee: str = "exactly-once", lineage: str = LINEAGE) -> None:
        super().__init__(folder / name)
        self.name, self.lineage = name, lineage
        self.known: dict[TopicPartition, int] = {}
        self.producer_epoch = 0
        self.deed = Deed(pipeline=name, lineage=lineage, guarantee=guarantee)
        self.home.storage.replace("pipeline.json", seal(self.deed))

    def reads_topics(self, **ids: str) -> "Joined":
        self.notes.replace("sources.json", seal(SourceTopics(ids=[dict(ids)])))
        return self

    def epoch(
        self,
        number: int,
        *,
        reads: Offsets | None = None,
        writes: Mapping[str, Mapping[int, tuple[int, int]]] | None = None,
        is_finished: bool = True,
        **changes: object,
    ) -> "Joined":
        """Planned, run, recorded with its vote, finished in Spark's log. `writes`: the first offset, and the end."""
        text = json.dumps(
            {topic: {str(it): offset for it, offset in each.items()} for topic, each in (reads or {}).items()},
            separators=(",", ":"),
        )
        plan = f'v1\n{{"batchWatermarkMs":0,"conf":{{"spark.sql.shuffle.partitions":"2"}}}}\n{text}'
        self.put(f"offsets/{number}", plan)
        if is_finished:
            self.put(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')
        spans = {
            TopicPartition(topic, partition): Span(*span)
            for topic, each in (writes or {}).items()
            for partition, span in each.items()
        }
        self.known |= {place: span.end + 1 for place, span in spans.items()}
        self.producer_epoch += 1
        outcome = Outcome.of((place, PartitionOutcome(span.end - span.first, 1)) for place, span in spans.items())
        facts: dict[str, object] = {
            "pipeline": self.name,
            "lineage": self.lineage,
            "term": self.term,
            "epoch": number,
            "phase": DONE,
            "positions": [text],
            "plan": plan,
            "decider": "out",
            "sinks": {"out": SinkEntry.of(outcome, kind=KAFKA, committable=self._vote(spans))},
            **changes,
        }
        self.ledger.write(Entry(**facts))  # type: ignore[arg-type]
        return self

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.home.of_lineage(self.deed).storage, {}, self.lineage)

    def _vote(self, spans: Mapping[TopicPartition, Span]) -> dict[str, object]:
        boundaries: dict[str, dict[str, int]] = {}
        for place, offset in self.known.items():
            boundaries.setdefault(place.topic, {})[str(place.partition)] = offset
        written: dict[str, dict[str, list[int]]] = {}
        for place, span in spans.items():
            written.setdefault(place.topic, {})[str(place.partition)] = [*span]
        return {
            "version": 1,
            "producer_id": 7,
            "producer_epoch": self.producer_epoch,
            IDS: {topic: id_of(topic) for topic in boundaries},
            BOUNDARIES: boundaries,
            WRITTEN: written,
        }


def two(folder: Path) -> tuple[Joined, Joined]:
    """A chain: `first` writes t, `second` reads it; one epoch of `first` is on its way, one more is not recorded."""
    first = Joined(folder, "first").reads_topics(events="id-of-events")
    second = Joined(folder, "second").reads_topics(t=id_of("t"))
    first.epoch(0, reads={"events": {0: 10}}, writes={"t": {0: (0, 4), 1: (0, 2)}})
    first.epoch(1, reads={"events": {0: 20}}, writes={"t": {0: (5, 9)}})
    second.epoch(0, reads={"t": {0: 3, 1: 0}})
    second.epoch(1, reads={"t": {0: 5, 1: 3}}, writes={"out": {0: (0, 7)}})
    second.epoch(2, reads={"t": {0: 14, 1: 3}}, writes={"out": {0: (8, 9)}})
    return first, second


def taken(folder: Path, *homes: Joined, **options: object) -> tuple[Place, Snapshot]:
    """A snapshot of them."""
    options = {"to": folder / "snapshot", "now": now, "sleep": lambda _: None, "patience_s": 0.0, **options}
    return create([it.home for it in homes], **options)  # type: ignore[arg-type]
