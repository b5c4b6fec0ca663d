"""Which epoch of each pipeline goes into a snapshot, so that together they are one. Pure.

A topic between two pipelines is a channel that keeps what it carried. Chandy and Lamport send a marker along each
channel; here none has to travel: its place on a channel is the producer's *boundary* after the epoch that is saved, an
offset that the ledger knows. A cut is consistent if no consumer has read past the boundary of a producer. Begin with
the newest epoch of everybody; while a consumer has read too far, take an earlier epoch of it; that ends, in cycles too,
since everybody only goes back. What lies between a consumer's position and the boundary is on its way: the channel's
state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from onceward.epoch.outcome import Span, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """What the ledger says of one epoch of one pipeline."""

    number: int
    positions: Mapping[TopicPartition, int] = field(default_factory=dict)  # up to where it has read
    furthest: Mapping[TopicPartition, int] = field(default_factory=dict)  # the same, of the quickest of its sources
    boundaries: Mapping[TopicPartition, int] = field(default_factory=dict)  # where its output stands after it
    written: Mapping[TopicPartition, Span | None] = field(default_factory=dict)  # its records; None: who knows where
    is_told: bool = True  # False: whether and where it wrote is not known
    is_savable: bool = True

    def read_up_to(self, place: TopicPartition) -> int:
        """By the quickest of its sources; 0: it does not know the partition yet."""
        return self.furthest.get(place, self.positions.get(place, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One pipeline's last epochs, oldest first, without a gap."""

    pipeline: str
    epochs: Sequence[Epoch]

    def at(self, number: int) -> Epoch:
        return next(epoch for epoch in self.epochs if epoch.number == number)

    def boundary(self, number: int, place: TopicPartition) -> int | None:
        """The highest offset with all records up to this epoch before it and all later ones not; None: not known.

        What comes next in the partition tells best. Until something does, it is where the output stood.
        """
        best = self.at(number).boundaries.get(place)
        for later in self.epochs:
            if later.number <= number:
                continue
            if not later.is_told:
                break
            if place in later.written:
                span = later.written[place]
                return span.first if span is not None else best
            best = later.boundaries.get(place, best)
        return best


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A topic that one pipeline writes and another one, or itself, reads."""

    topic: str
    topic_id: str
    producer: str
    consumer: str


class Range(NamedTuple):
    """What is on its way in one partition: from the consumer's position to the producer's boundary."""

    partition: int
    start: int
    end: int


class NoCut(Exception):
    """No epoch of a consumer that is still there fits; a moment later one may."""


def consistent_cut(histories: Mapping[str, History], channels: Sequence[Channel]) -> dict[str, Epoch]:
    """The newest one there is."""
    chosen = {name: _newest_that_tells(history, channels) for name, history in histories.items()}
    moved = True
    while moved:
        moved = False
        for channel in channels:
            producer, consumer = histories[channel.producer], histories[channel.consumer]
            fits = _newest_that_fits(channel, producer, chosen[channel.producer], consumer, chosen[channel.consumer])
            moved = moved or fits.number != chosen[channel.consumer].number
            chosen[channel.consumer] = fits
    return chosen


def too_far(channel: Channel, producer: History, at: Epoch, reads: Epoch) -> TopicPartition | None:
    """A partition in which the consumer has read past what the producer had written by then, or may have."""
    for place in _places(channel, producer, reads):
        bound = producer.boundary(at.number, place)
        if bound is None or reads.read_up_to(place) > bound:
            return place
    return None


def on_its_way(channel: Channel, producer: History, at: Epoch, reads: Epoch) -> list[Range]:
    """The channel's state, in every partition that somebody knows of."""
    found = []
    for place in _places(channel, producer, reads):
        start, bound = reads.positions.get(place, 0), producer.boundary(at.number, place)
        assert bound is not None, "such a cut is refused"
        # Any offset from where the output stood to where it went on will do; the least leaves strangers' records out.
        end = max(reads.read_up_to(place), at.boundaries.get(place, bound))
        found.append(Range(partition=place.partition, start=start, end=end))
    return found


def _places(channel: Channel, producer: History, reads: Epoch) -> list[TopicPartition]:
    return sorted({place for place in (*reads.positions, *_told(producer)) if place.topic == channel.topic})


def _told(producer: History) -> list[TopicPartition]:
    return sorted({place for epoch in producer.epochs for place in (*epoch.boundaries, *epoch.written)})


def _newest_that_tells(history: History, channels: Sequence[Channel]) -> Epoch:
    """Of which it is known where its output stood; a later one may have been recorded without that (kills, brokers)."""
    topics = {channel.topic for channel in channels if channel.producer == history.pipeline}
    places = [place for place in _told(history) if place.topic in topics]
    silent = None
    for epoch in reversed(history.epochs):
        unknown = [place for place in places if history.boundary(epoch.number, place) is None]
        if epoch.is_savable and not unknown:
            return epoch
        if epoch.is_savable and silent is None:
            silent = epoch, unknown[0]
    if silent is None:
        raise NoCut(f"pipeline {history.pipeline!r} has no epoch yet that can be saved")
    raise NoCut(
        f"the ledger of pipeline {history.pipeline!r} does not say where its output in {silent[1]} stood after epoch "
        f"{silent[0].number}; its next epoch will tell"
    )


def _newest_that_fits(channel: Channel, producer: History, at: Epoch, consumer: History, now: Epoch) -> Epoch:
    for epoch in reversed(consumer.epochs):
        if epoch.number <= now.number and epoch.is_savable and too_far(channel, producer, at, epoch) is None:
            return epoch
    oldest = next(epoch for epoch in consumer.epochs if epoch.is_savable)
    place = too_far(channel, producer, at, oldest)
    assert place is not None, "an epoch that fits was among the candidates"
    known = producer.boundary(at.number, place)
    if known is None:
        raise NoCut(
            f"the ledger of pipeline {producer.pipeline!r} does not say where its output in {place} stood after epoch "
            f"{at.number}; its next epoch will tell"
        )
    raise NoCut(
        f"pipeline {consumer.pipeline!r} has read {place} up to {oldest.read_up_to(place)} in every epoch that can "
        f"still be saved, or further, and pipeline {producer.pipeline!r} had written it up to {known} after epoch "
        f"{at.number}, the newest of its epochs that can be saved"
    )
