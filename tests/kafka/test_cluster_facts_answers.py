"""What is learned of a cluster from each answer: the production questions on brokers that answer as the test says."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from onceward.kafka.cluster_facts import READ, WRITE, group_is_allowed, look, producer_id, transactional_id_is_visible
from onceward.kafka.listing import topic_names
from onceward.kafka.wire import TRANSACTION, Wire
from support.brokers import Brokers, said

REFUSED = 29  # TOPIC_AUTHORIZATION_FAILED
MISSING = 3


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    brokers.will("ApiVersionsRequest", said(finalized_features=None))
    brokers.will("DescribeConfigsRequest", said(results=[]))
    return brokers


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


def topic(name: str, error_code: int = 0, allowed: set[int] | None = None) -> SimpleNamespace:
    partitions = [
        SimpleNamespace(replica_nodes=[1, 2, 3], isr_nodes=[1], leader_id=1),
        SimpleNamespace(replica_nodes=[1, 2], isr_nodes=[1, 2], leader_id=-1),
    ]
    return said(error_code, name=name, partitions=partitions, authorized_operations=allowed, is_internal=name[0] == "_")


def settings(name: str, error_code: int = 0, **values: str | None) -> Any:
    entries = [SimpleNamespace(name=key.replace("_", "."), value=value) for key, value in values.items()]
    return said(error_code, resource_name=name, configs=entries)


def test_a_topic_is_told_by_its_weakest_partition_and_one_that_we_may_not_see_is_none(
    brokers: Brokers, wire: Wire
) -> None:
    found = [topic("in", allowed={READ}), topic("gone", MISSING), topic("secret", REFUSED)]
    brokers.will("MetadataRequest", said(brokers=[1, 2, 3], topics=found))
    brokers.will(
        "DescribeConfigsRequest",
        said(results=[settings("in", min_insync_replicas="2", hidden=None), settings("other", REFUSED, a="1")]),
        said(results=[settings("1", log_retention_ms="7")]),
    )
    brokers.will("ApiVersionsRequest", said(finalized_features=[said(name="transaction.version", max_version_level=2)]))
    facts = look(wire, ["in", "gone", "secret", "in"])
    assert (facts.brokers, facts.transaction_version, facts.settings) == (3, 2, {"log.retention.ms": "7"})
    assert set(facts.topics) == {"in", "secret"}
    assert facts.topics["secret"] is None
    told = facts.topics["in"]
    assert told is not None
    assert (told.partitions, told.replicas, told.in_sync, told.leaderless) == (2, 2, 1, 1)
    assert (told.allowed, told.settings) == (frozenset({READ}), {"min.insync.replicas": "2"})


def test_without_topics_none_is_asked_about_and_an_old_cluster_has_no_features(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", said(brokers=[1], topics=[]))
    facts = look(wire, [])
    assert (facts.transaction_version, facts.settings, facts.topics) == (0, {}, {})
    assert len(brokers.requests("DescribeConfigsRequest")) == 1  # the broker's own


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [
        (said(30, authorized_operations=None), False),
        (said(authorized_operations=None), None),
        (said(authorized_operations={READ, WRITE}), True),
        (said(authorized_operations={WRITE}), False),
    ],
)
def test_who_may_read_a_group_is_allowed_to_commit_to_it(
    brokers: Brokers, wire: Wire, answer: Any, allowed: bool | None
) -> None:
    brokers.will("DescribeGroupsRequest", said(groups=[answer]))
    assert group_is_allowed(wire, "p") is allowed


@pytest.mark.parametrize(("number", "visible"), [(0, True), (53, False), (105, True)])
def test_a_transactional_id_that_does_not_exist_yet_may_be_looked_at(
    brokers: Brokers, wire: Wire, number: int, visible: bool
) -> None:
    brokers.will("DescribeTransactionsRequest", said(transaction_states=[said(number)]))
    assert transactional_id_is_visible(wire, "p") is visible


def test_the_producer_id_of_a_transactional_id_is_known_where_its_coordinator_tells_it(
    brokers: Brokers, wire: Wire
) -> None:
    """D5: 14 and 16 are no answers yet; 105 and 53 are none at all."""
    told = said(producer_id=77)
    brokers.will("DescribeTransactionsRequest", *(said(transaction_states=[it]) for it in (said(14), said(16), told)))
    assert producer_id(wire, "p") == 77
    assert len(brokers.requests("FindCoordinatorRequest")) == 3
    for number in (105, 53):
        brokers.will("DescribeTransactionsRequest", said(transaction_states=[said(number, producer_id=-1)]))
        assert producer_id(wire, "p") is None
    wire.forget_coordinator("p", TRANSACTION)
    brokers.will("FindCoordinatorRequest", said(coordinators=[said(53)]))
    assert producer_id(wire, "p") is None


@pytest.mark.parametrize(("number", "asked"), [(30, group_is_allowed), (53, transactional_id_is_visible)])
def test_who_may_not_even_learn_the_coordinator_is_not_allowed(
    brokers: Brokers, wire: Wire, number: int, asked: Callable[[Wire, str], bool | None]
) -> None:
    brokers.will("FindCoordinatorRequest", said(coordinators=[said(number)]))
    assert asked(wire, "p") is False


def test_kafkas_own_topics_are_not_listed(brokers: Brokers, wire: Wire) -> None:
    brokers.will("MetadataRequest", said(topics=[topic("b"), topic("__offsets"), topic("no", REFUSED), topic("a")]))
    assert topic_names(wire) == ["a", "b"]
