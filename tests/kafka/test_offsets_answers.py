"""Where topics end and begin, from leaders that move, that do not know yet, or that nobody hears."""

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, BrokerUnreachable
from onceward.kafka.offsets import EARLIEST, LATEST, id_text, offsets
from onceward.kafka.wire import Wire
from support.brokers import LOST, Brokers, said


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def led(*leaders: int, topic: str = "t", number: int = 1) -> SimpleNamespace:
    """A metadata answer: the leader of each partition."""
    partitions = [
        SimpleNamespace(partition_index=index, leader_id=leader, replica_nodes=[1])
        for index, leader in enumerate(leaders)
    ]
    return SimpleNamespace(topics=[said(name=topic, partitions=partitions, topic_id=UUID(int=number))])


def at(offset: int, error_code: int = 0) -> SimpleNamespace:
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[said(error_code, offset=offset)])])


def asked(brokers: Brokers) -> list[tuple[int, str, int, int]]:
    """Which node was asked for which partition, and for which end of it."""
    found = [(node, it) for node, it in brokers.asked if type(it).__name__ == "ListOffsetsRequest"]
    return [
        (node, it.topics[0].name, it.topics[0].partitions[0].partition_index, it.topics[0].partitions[0].timestamp)
        for node, it in found
    ]


def test_every_partition_is_asked_of_its_leader(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    brokers.will("MetadataRequest", led(3, 4))
    brokers.will("ListOffsetsRequest", at(10), at(20))
    assert offsets(wire, ["t", "t"], LATEST) == {TopicPartition("t", 0): 10, TopicPartition("t", 1): 20}
    assert asked(brokers) == [(3, "t", 0, LATEST), (4, "t", 1, LATEST)]
    assert [it.isolation_level for it in brokers.requests("ListOffsetsRequest")] == [0, 0]


def test_the_beginning_is_asked_for_in_the_same_way(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    brokers.will("MetadataRequest", led(3))
    brokers.will("ListOffsetsRequest", at(7))
    assert offsets(wire, ["t"], EARLIEST) == {TopicPartition("t", 0): 7}
    assert asked(brokers) == [(3, "t", 0, EARLIEST)]


def test_broker_0_is_one_and_offset_0_an_answer(brokers: Brokers, wire: Wire) -> None:
    """As clusters number their brokers; no leader is -1."""
    brokers.will("MetadataRequest", led(0, 0))
    brokers.will("ListOffsetsRequest", at(0), at(7))
    assert offsets(wire, ["t"], LATEST) == {TopicPartition("t", 0): 0, TopicPartition("t", 1): 7}
    assert asked(brokers) == [(0, "t", 0, LATEST), (0, "t", 1, LATEST)]


def test_of_no_topic_nobody_is_asked(brokers: Brokers, wire: Wire) -> None:
    assert offsets(wire, [], LATEST) == {}
    assert brokers.asked == []


def test_a_topic_that_is_not_there_has_no_offsets(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    brokers.will("MetadataRequest", SimpleNamespace(topics=[said(3, name="t", partitions=[])]))
    assert offsets(wire, ["t"], LATEST) == {}


def test_a_partition_without_a_leader_is_waited_for(brokers: Brokers, wire: Wire) -> None:
    """D5: nothing is guessed meanwhile, and what is known is not asked again."""
    brokers.will("MetadataRequest", led(3, -1), led(3, -1), led(3, 4))
    brokers.will("ListOffsetsRequest", at(10), at(20))
    assert len(offsets(wire, ["t"], LATEST)) == 2
    assert asked(brokers) == [(3, "t", 0, LATEST), (4, "t", 1, LATEST)]


@pytest.mark.parametrize("code", [78, 6, 75, 3, 5])
def test_a_leader_that_has_moved_or_does_not_know_yet_is_asked_again(brokers: Brokers, wire: Wire, code: int) -> None:
    """D5: right after an election an end may seem to be lower than it is (OFFSET_NOT_AVAILABLE)."""
    brokers.will("MetadataRequest", led(3), led(4))
    brokers.will("ListOffsetsRequest", at(-1, code), at(10))
    assert offsets(wire, ["t"], LATEST) == {TopicPartition("t", 0): 10}
    assert [node for node, *_ in asked(brokers)] == [3, 4]


def test_a_lost_answer_is_asked_for_again(brokers: Brokers, wire: Wire) -> None:
    """D5."""
    brokers.will("MetadataRequest", led(3, 3))
    brokers.will("ListOffsetsRequest", at(10), LOST, at(20))
    assert offsets(wire, ["t"], LATEST) == {TopicPartition("t", 0): 10, TopicPartition("t", 1): 20}
    assert [partition for _, _, partition, _ in asked(brokers)] == [0, 1, 1]


def test_a_refusal_names_the_partition(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", led(3))
    brokers.will("ListOffsetsRequest", at(-1, 29))
    with pytest.raises(BrokerRefused, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
        offsets(wire, ["t"], LATEST)


def test_waiting_has_an_end(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", led(-1))
    with pytest.raises(BrokerUnreachable, match="the offsets of t could not be had"):
        offsets(wire, ["t"], LATEST)


def test_the_wires_own_questions(brokers: Brokers, wire: Wire) -> None:
    """D5: where topics end, which ones they are, and how they were made."""
    brokers.will("MetadataRequest", led(3, number=5))
    brokers.will("ListOffsetsRequest", at(10))
    configs: Any = [said(name="retention.ms", value="1", config_source=1), said(name="x", value="2", config_source=5)]
    brokers.will("DescribeConfigsRequest", SimpleNamespace(results=[said(resource_name="t", configs=configs)]))
    assert wire.ends(["t"]) == {TopicPartition("t", 0): 10}
    assert wire.topic_ids(["t"]) == {"t": id_text(UUID(int=5))}
    layout = wire.layouts(["t"])["t"]
    assert (layout.partitions, layout.replicas, layout.settings) == (1, 1, {"retention.ms": "1"})
    brokers.will("MetadataRequest", SimpleNamespace(topics=[said(3, name="t", partitions=[], topic_id=UUID(int=0))]))
    brokers.will("DescribeConfigsRequest", SimpleNamespace(results=[said(3, resource_name="t", configs=[])]))
    assert wire.topic_ids(["t"]) == wire.layouts(["t"]) == {}


def test_an_id_is_written_as_kafkas_tools_write_it() -> None:
    assert id_text(UUID("f3f2f1f0-0001-0002-0003-000000000004")) == "8_Lx8AABAAIAAwAAAAAABA"
