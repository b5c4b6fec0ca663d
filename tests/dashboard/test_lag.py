"""What a pipeline has not read yet, on a real broker: as of now, of its own topics, and never of half of them."""

from typing import Any

import pytest

from onceward.dashboard.lag import ReadUpTo, measured
from onceward.epoch.outcome import TopicPartition
from onceward.kafka.wire import Cluster, Wire
from support.judge import Kafka


@pytest.fixture
def wire(kafka: Kafka) -> Any:
    found = Wire(Cluster(kafka.bootstrap))
    yield found
    found.close()


def reader(wire: Wire, positions: dict[tuple[str, int], int]) -> ReadUpTo:
    places = {TopicPartition(*place): offset for place, offset in positions.items()}
    return ReadUpTo(places, wire.topic_ids({place.topic for place in places}))


def test_it_is_what_lies_between_positions_and_ends(wire: Wire, kafka: Kafka) -> None:
    """I2."""
    one, other = kafka.topic(1), kafka.topic(2)
    kafka.feed(one, ((str(number), "x") for number in range(30)))
    kafka.feed(other, ((str(number), "x") for number in range(40)))
    whole = {(place.topic, place.partition): offset for place, offset in wire.ends([one, other]).items()}
    behind = {**whole, (one, 0): 10}
    fresh = {(one, 0): 0}
    readers = {"done": reader(wire, whole), "behind": reader(wire, behind), "fresh": reader(wire, fresh)}
    assert measured(wire, readers) == {
        "done": {one: 0, other: 0},
        "behind": {one: 20, other: 0},
        "fresh": {one: 30},
    }
    assert measured(wire, {}) == {}


def test_a_partition_that_has_come_is_unread(wire: Wire, kafka: Kafka) -> None:
    topic = kafka.topic(2)
    kafka.feed(topic, ((str(number), "x") for number in range(40)))
    first = wire.ends([topic])[TopicPartition(topic, 0)]
    assert measured(wire, {"p": reader(wire, {(topic, 0): first})}) == {"p": {topic: 40 - first}}


def test_of_a_topic_that_is_another_or_gone_nothing_is_known(wire: Wire, kafka: Kafka) -> None:
    """Another cluster may have one of the same name; and half of a lag would be too little."""
    topic, other = kafka.topic(1), kafka.topic(1)
    kafka.feed(topic, [("x", "x")])
    known = reader(wire, {(topic, 0): 0, (other, 0): 0})
    for ids in ({}, {topic: known.ids[topic]}, {topic: known.ids[topic], other: "another"}):
        assert measured(wire, {"p": ReadUpTo(known.positions, ids)}) == {}
    assert measured(wire, {"p": reader(wire, {("no-such-topic", 0): 0})}) == {}
