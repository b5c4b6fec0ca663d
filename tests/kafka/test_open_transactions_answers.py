"""Open transactions and whom they hold back, from brokers that answer as a test says."""

from types import SimpleNamespace
from typing import Any

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka import open_transactions
from onceward.kafka.open_transactions import Ends, Holder, OpenTransaction, described, holder_of, listed
from onceward.kafka.wire import Wire
from support.brokers import LOST, Brokers, said

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def cluster(*leaders: int, brokers: tuple[int, ...] = (1,)) -> SimpleNamespace:
    partitions = [SimpleNamespace(partition_index=number, leader_id=node) for number, node in enumerate(leaders)]
    topics = [said(name="t", partitions=partitions)] if leaders else []
    return SimpleNamespace(brokers=[SimpleNamespace(node_id=node) for node in brokers], topics=topics)


def listing(*names: str, state: str = "Ongoing", error_code: int = 0) -> SimpleNamespace:
    states = [SimpleNamespace(transactional_id=name, transaction_state=state, producer_id=1) for name in names]
    return said(error_code, transaction_states=states)


def state(name: str, producer: int = 7, *places: tuple[str, list[int]], **facts: Any) -> SimpleNamespace:
    told = {
        "error_code": 0,
        "transactional_id": name,
        "producer_id": producer,
        "producer_epoch": 3,
        "transaction_state": "Ongoing",
        "transaction_start_time_ms": 5000,
        "transaction_timeout_ms": 60_000,
        "topics": [SimpleNamespace(topic=topic, partitions=numbers) for topic, numbers in places],
    }
    return SimpleNamespace(**{**told, **facts})


def describing(*states: SimpleNamespace) -> SimpleNamespace:
    return SimpleNamespace(transaction_states=list(states))


def ends(*parts: tuple[int, int] | tuple[int, int, int]) -> SimpleNamespace:
    """Partition, offset and, where there is one, an error."""
    told = [said(rest[0] if rest else 0, partition_index=part, offset=offset) for part, offset, *rest in parts]
    return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=told)])


def producer(number: int, first: int, at: int = -1) -> SimpleNamespace:
    return SimpleNamespace(producer_id=number, current_txn_start_offset=first, last_timestamp=at)


def producing(*parts: tuple[int, list[SimpleNamespace]], error_code: int = 0) -> SimpleNamespace:
    told = [said(error_code, partition_index=part, active_producers=found) for part, found in parts]
    return SimpleNamespace(topics=[SimpleNamespace(name="t", partitions=told)])


def test_whoever_holds_readers_back_is_found_with_its_transaction(brokers: Brokers, wire: Wire) -> None:
    """I2."""
    brokers.will("MetadataRequest", cluster(), cluster(1, 1))
    brokers.will("ListTransactionsRequest", listing("orders"))
    brokers.will("DescribeTransactionsRequest", describing(state("orders", 7, ("t", [0]), ("__consumer_offsets", [3]))))
    brokers.will("ListOffsetsRequest", ends((0, 10), (1, 4)), ends((0, 16), (1, 4)))
    brokers.will("DescribeProducersRequest", producing((0, [producer(5, -1), producer(7, 10), producer(8, 12)])))
    sight = open_transactions.look(wire)
    (transaction,) = sight.transactions
    assert (transaction.transactional_id, transaction.producer_id, transaction.producer_epoch) == ("orders", 7, 3)
    assert transaction.partitions == (TopicPartition("__consumer_offsets", 3), T0)
    assert sight.partitions == [Ends(T0, 16, 10, Holder(7, "orders", 5000, 10)), Ends(T1, 4, 4)]
    assert [it.held_back for it in sight.partitions] == [6, 0]
    assert [it.isolation_level for it in brokers.requests("ListOffsetsRequest")] == [1, 0]  # the stable end first
    (asked,) = brokers.requests("DescribeProducersRequest")
    assert [(it.name, it.partition_indexes) for it in asked.topics] == [("t", [0])]  # of those held back alone


def test_each_coordinator_and_each_leader_is_asked_for_its_own(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", cluster(brokers=(1, 2)), cluster(3, 4, -1))
    brokers.will("ListTransactionsRequest", listing(), listing("b"))
    brokers.will("DescribeTransactionsRequest", describing(state("b")))
    brokers.will("ListOffsetsRequest", ends((0, 1)), ends((1, 2)), ends((0, 1)), ends((1, 2)))
    sight = open_transactions.look(wire, ["t"])
    assert [(it.transactional_id, it.coordinator) for it in sight.transactions] == [("b", 2)]
    assert sight.partitions == [Ends(T0, 1, 1), Ends(T1, 2, 2), Ends(TopicPartition("t", 2), None, None)]
    assert sight.partitions[2].held_back == 0  # without a leader nobody tells
    nodes = [node for node, request in brokers.asked if type(request).__name__ == "ListOffsetsRequest"]
    assert nodes == [3, 4, 3, 4]
    assert not brokers.requests("DescribeProducersRequest")


def test_where_nothing_is_open_and_no_topic_is_named_no_leader_is_asked(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", cluster())
    brokers.will("ListTransactionsRequest", listing())
    assert open_transactions.look(wire) == open_transactions.Sight([], [])
    assert len(brokers.requests("MetadataRequest")) == 1


@pytest.mark.parametrize("first", [listing(error_code=14), listing(error_code=15), LOST])
def test_a_coordinator_that_is_not_ready_is_asked_again(brokers: Brokers, wire: Wire, first: Any) -> None:
    brokers.will("MetadataRequest", cluster())
    brokers.will("ListTransactionsRequest", first, listing())
    assert open_transactions.look(wire).transactions == []
    assert len(brokers.requests("ListTransactionsRequest")) == 2


def test_a_broker_that_does_not_let_us_look_is_named(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", cluster())
    brokers.will("ListTransactionsRequest", listing(error_code=31))
    with pytest.raises(BrokerRefused, match="the transactions of broker 1: CLUSTER_AUTHORIZATION_FAILED"):
        open_transactions.look(wire)


def test_a_leader_that_cannot_tell_just_now_leaves_a_gap(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", cluster(), cluster(1, 1))
    brokers.will("ListTransactionsRequest", listing())
    brokers.will("ListOffsetsRequest", ends((0, 3), (1, 0, 6)), ends((0, 9), (1, 7)))
    brokers.will("DescribeProducersRequest", producing((0, []), error_code=6))
    assert open_transactions.look(wire, ["t"]).partitions == [Ends(T0, 9, 3), Ends(T1, 7, None)]


def test_an_answer_to_a_filter_that_the_broker_does_not_know_is_filtered_here() -> None:
    assert listed(listing("a", state="CompleteCommit")) == []
    assert listed(listing("b", "a", state="PrepareCommit")) == ["a", "b"]


def test_what_has_ended_between_two_questions_is_left_out() -> None:
    found = described(
        describing(
            state("gone", error_code=105),
            state("done", transaction_state="CompleteAbort"),
            state("new", transaction_start_time_ms=-1),
        ),
        coordinator=2,
    )
    assert [(it.transactional_id, it.began_ms) for it in found] == [("new", None)]


def test_a_producer_whose_transaction_nobody_knows_is_a_hanging_one() -> None:
    known = {7: OpenTransaction("p", 7, 0, "Ongoing", 5, 6, 1, ())}
    assert holder_of([producer(9, 4, at=1234), producer(7, 5)], known) == Holder(9, None, 1234, 4)
    assert holder_of([producer(9, 4)], known) == Holder(9, None, None, 4)
    assert holder_of([producer(9, 0, at=0)], known) == Holder(9, None, None, 0)  # with a partition's first record
    assert holder_of([producer(7, -1)], known) is None
