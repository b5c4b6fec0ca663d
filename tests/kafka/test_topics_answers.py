"""Topics and groups as people are shown them, from answers that a test can say beforehand."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, TopicUnusable
from onceward.kafka import groups, marker, topics
from onceward.kafka.wire import Wire
from support.brokers import Brokers, said


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    brokers.will("MetadataRequest", known("orders"))
    return brokers


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def known(*names: str) -> SimpleNamespace:
    """A metadata answer: topics with a partition on brokers 1 and 2, led by 2; the others are not there."""
    partition = SimpleNamespace(partition_index=0, leader_id=2, replica_nodes=[2, 1], isr_nodes=[2])
    found = [
        said(name=name, partitions=[partition], topic_id=UUID(int=1), is_internal=name.startswith("__"))
        for name in names
    ]
    nodes = [SimpleNamespace(node_id=1), SimpleNamespace(node_id=2)]
    return SimpleNamespace(topics=[*found, said(3, name="missing", partitions=[])], brokers=nodes)


def at(offset: int) -> SimpleNamespace:
    return SimpleNamespace(topics=[SimpleNamespace(partitions=[said(offset=offset)])])


def test_every_topic_is_listed_kafkas_own_as_such(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", known("orders", "__consumer_offsets"))
    assert topics.listed(wire) == [
        topics.Listed("__consumer_offsets", 1, 2, internal=True),
        topics.Listed("orders", 1, 2, internal=False),
    ]
    assert [it.topics for it in brokers.requests("MetadataRequest")] == [None]


def test_a_topic_is_described_with_its_partitions_offsets_and_own_settings(brokers: Brokers, wire: Wire) -> None:
    own = SimpleNamespace(name="retention.ms", value="5", config_source=1)
    default = SimpleNamespace(name="segment.ms", value="9", config_source=5)
    brokers.will("MetadataRequest", SimpleNamespace(topics=known("orders").topics[:1]))
    brokers.will("ListOffsetsRequest", at(3), at(8))
    brokers.will(
        "DescribeConfigsRequest", SimpleNamespace(results=[said(resource_name="orders", configs=[own, default])])
    )
    partition = topics.Partition(number=0, leader=2, replicas=[2, 1], in_sync=[2], first=3, end=8)
    assert topics.described(wire, "orders") == topics.Described("orders", [partition], {"retention.ms": "5"})


def test_a_missing_topic_is_told_with_the_command_that_makes_it(wire: Wire) -> None:
    """I3."""
    with pytest.raises(TopicUnusable, match=r"topic 'ordres' does not exist .* `onceward kafka topic create ordres`"):
        topics.described(wire, "ordres")
    assert topics.require(wire, ["orders"]) == {"orders": 1}


def test_a_topic_that_exists_is_left_alone_and_so_are_the_others(brokers: Brokers, wire: Wire) -> None:
    """I3."""
    with pytest.raises(TopicUnusable, match=r"a topic 'orders' \(1 partitions\) already; nothing was made"):
        topics.create(wire, ["new", "orders"], 4, 1, {})
    assert brokers.requests("CreateTopicsRequest") == []


def test_new_topics_are_made(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", known(), known("new"))
    brokers.will("CreateTopicsRequest", SimpleNamespace(topics=[said(name="new")]))
    topics.create(wire, ["new", "new"], topics.BROKERS_CHOICE, 2, {"retention.ms": "5"})
    (request,) = brokers.requests("CreateTopicsRequest")
    (asked,) = request.topics
    assert (asked.name, asked.num_partitions, asked.replication_factor) == ("new", -1, 2)


def test_a_partition_that_is_not_there_is_told_with_those_that_are() -> None:
    """I3."""
    topics.require_partition("orders", 4, 3)
    with pytest.raises(TopicUnusable, match="'orders' has partitions 0 to 3, so there is no partition 4"):
        topics.require_partition("orders", 4, 4)


def told(*names: str, error_code: int = 0) -> SimpleNamespace:
    return said(error_code, groups=[SimpleNamespace(group_id=name, group_state="Empty") for name in names])


def test_groups_are_asked_of_every_broker_and_of_one_that_is_loading_again(brokers: Brokers, wire: Wire) -> None:
    brokers.will("ListGroupsRequest", told("b"), told(error_code=14), told("a", "c"))
    assert groups.listed(wire) == [groups.Group(name, "Empty") for name in "abc"]
    assert [node for node, it in brokers.asked if type(it).__name__ == "ListGroupsRequest"] == [1, 2, 2]


def test_a_broker_that_refuses_its_groups_is_named(brokers: Brokers, wire: Wire) -> None:
    brokers.will("ListGroupsRequest", told(error_code=31))
    with pytest.raises(BrokerRefused, match="the groups of broker 1: CLUSTER_AUTHORIZATION_FAILED"):
        groups.listed(wire)


def held(*entries: tuple[str, int, str | None], error_code: int = 0) -> SimpleNamespace:
    """An OffsetFetch answer: topic, offset and metadata of partition 0 of each."""
    found = [
        SimpleNamespace(name=name, partitions=[said(partition_index=0, committed_offset=offset, metadata=text)])
        for name, offset, text in entries
    ]
    return SimpleNamespace(groups=[said(error_code, topics=found)])


def test_a_groups_positions_have_their_lag_and_a_pipelines_epoch(brokers: Brokers, wire: Wire) -> None:
    """C4."""
    full, _ = marker.of(lineage="L", epoch=7, term=2, outcome=None)
    brokers.will("OffsetFetchRequest", held(error_code=14), held(("orders", 5, full), ("gone", 1, None)))
    brokers.will("ListOffsetsRequest", at(8))
    gone, orders = groups.positions(wire, "g")
    assert (gone.place, gone.offset, gone.end, gone.lag, gone.marker) == (
        TopicPartition("gone", 0),
        1,
        None,
        None,
        None,
    )
    assert (orders.offset, orders.end, orders.lag) == (5, 8, 3)
    assert (orders.marker.lineage, orders.marker.epoch) == ("L", 7)


def test_a_group_that_we_may_not_see_is_named(brokers: Brokers, wire: Wire) -> None:
    brokers.will("OffsetFetchRequest", held(error_code=30))
    with pytest.raises(BrokerRefused, match="group 'g': GROUP_AUTHORIZATION_FAILED"):
        groups.positions(wire, "g")


def test_a_topic_is_compacted_if_its_brokers_say_so(brokers: Brokers, wire: Wire) -> None:
    """One that we may not ask about is taken for one that is not: then no offset may be missing."""
    told = {"a": "compact", "b": "delete", "c": "delete,compact", "d": None}
    results = [
        said(resource_name=name, configs=[SimpleNamespace(name="cleanup.policy", value=value)])
        for name, value in told.items()
    ]
    refused = said(29, resource_name="e", configs=[])
    silent = said(resource_name="f", configs=[])
    brokers.will("DescribeConfigsRequest", SimpleNamespace(results=[*results, refused, silent]))
    assert topics.compacted(wire, "abcdef") == {"a", "c"}
