"""Where a pipeline's output stands after each epoch, by offsets: what its readers' positions are compared with.

A *boundary* of an epoch in a partition is an offset with every record of this epoch and earlier ones before it, and
every record of later epochs at or after it. It travels in the Kafka sink's vote, so the ledger has it for each epoch.
"""

from collections.abc import Mapping
from typing import Any, Final

from onceward.epoch.outcome import Outcome, Span, TopicPartition

IDS: Final = "topics"  # keys of the vote
BOUNDARIES: Final = "boundaries"
WRITTEN: Final = "written"
END_MARKER: Final = 1  # a committed transaction leaves one record of the broker's own behind its last

Offsets = Mapping[TopicPartition, int]


class Boundaries:
    """Kept by a driver, from its start on."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}
        self._known: dict[TopicPartition, int] = {}
        self._unsure: set[str] = set()

    def to_ask(self, outcome: Outcome) -> set[str]:
        """Topics that are new to this driver, or of which it does not know all."""
        return {place.topic for place in outcome.partitions if place.topic not in self.ids} | self._unsure

    def learn(self, ids: Mapping[str, str], ends: Offsets) -> None:
        """What this driver has not written to stands where it stands: older ones are fenced, all is of earlier epochs.

        Asked at a start, before the first write; and of other topics when they are first written to.
        """
        self.ids.update(ids)
        self._known = {**ends, **self._known}
        self._unsure -= ids.keys()

    def forget(self, topic: str) -> None:
        """It has more partitions than before, or a broker did not say where records are: ask at the next epoch."""
        self._unsure.add(topic)

    def vote(self, outcome: Outcome) -> dict[str, Any]:
        """What the ledger is to know, once it is voted for. A try that is aborted moves the next one's further on."""
        for place, part in outcome.partitions.items():
            if part.span is not None:
                self._known[place] = part.span.end + END_MARKER
            elif part.rows:
                self._known.pop(place, None)
                self.forget(place.topic)
        spans = {place: part.span for place, part in outcome.partitions.items() if part.span is not None}
        return {IDS: dict(self.ids), BOUNDARIES: _by_topic(self._known), WRITTEN: _by_topic(spans)}


def boundaries_in(committable: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Of a vote; empty if it has none."""
    return {place: int(found) for place, found in _by_place(committable.get(BOUNDARIES, {}))}


def written_in(committable: Mapping[str, Any]) -> dict[TopicPartition, Span]:
    """Where the epoch's own records are, by a vote."""
    return {place: Span(int(found[0]), int(found[1])) for place, found in _by_place(committable.get(WRITTEN, {}))}


def topic_ids_in(committable: Mapping[str, Any]) -> dict[str, str]:
    """The topics that a vote is about."""
    return {str(name): str(number) for name, number in committable.get(IDS, {}).items()}


def _by_topic(offsets: Mapping[TopicPartition, Any]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for place, value in sorted(offsets.items()):
        found.setdefault(place.topic, {})[str(place.partition)] = value
    return found


def _by_place(offsets: Mapping[str, Mapping[str, Any]]) -> list[tuple[TopicPartition, Any]]:
    return [
        (TopicPartition(topic, int(partition)), value)
        for topic, partitions in offsets.items()
        for partition, value in partitions.items()
    ]
