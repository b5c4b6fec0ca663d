"""What a cluster says of itself, for people who ask whether it keeps what it is given. Nothing is changed or fenced."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest, DescribeGroupsRequest, DescribeTransactionsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from onceward.errors import BrokerRefused
from onceward.kafka.codes import Meaning, code
from onceward.kafka.wire import GROUP, TRANSACTION, Wire

BROKER: Final = 4  # kinds of resources in DescribeConfigs
TOPIC: Final = 2
FEATURE: Final = "transaction.version"
# Kafka's numbers of operations that an access control list allows.
READ: Final = 3
WRITE: Final = 4
DESCRIBE: Final = 8
REFUSED: Final = frozenset({29, 30, 31, 53})  # TOPIC_, GROUP_, CLUSTER_, TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic as the brokers describe it; `allowed` is None where they do not tell."""

    name: str
    partitions: int
    replicas: int  # of the partition that has fewest
    in_sync: int  # likewise
    leaderless: int
    allowed: frozenset[int] | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """`topics` has no entry for a topic that does not exist, and None for one that we may not look at."""

    brokers: int
    transaction_version: int
    settings: Mapping[str, str]  # of one broker; empty where we may not look
    topics: Mapping[str, TopicFacts | None]


def look(wire: Wire, topics: Iterable[str]) -> ClusterFacts:
    """Ask the brokers about themselves and about these topics."""
    names = sorted(set(topics))
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=True)
    found = wire.settle(lambda: wire.call(wire.any_node(), request), "the cluster's metadata")
    there = [topic for topic in found.topics if topic.error_code == 0]
    settings = _settings(wire, TOPIC, [topic.name for topic in there])
    refused: dict[str, TopicFacts | None] = {it.name: None for it in found.topics if it.error_code in REFUSED}
    return ClusterFacts(
        brokers=len(found.brokers),
        transaction_version=_transaction_version(wire),
        settings=next(iter(_settings(wire, BROKER, [str(wire.any_node())]).values()), {}),
        topics={topic.name: _topic(topic, settings.get(topic.name, {})) for topic in there} | refused,
    )


def group_is_allowed(wire: Wire, group: str) -> bool | None:
    """Whether we may read and commit its offsets; None where the broker does not tell."""
    request = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    try:
        answer = wire.settle(
            lambda: wire.call_coordinator(group, GROUP, lambda: request), f"what is allowed in group {group!r}"
        ).groups[0]
    except BrokerRefused:  # not even who its coordinator is
        return False
    if answer.error_code in REFUSED:
        return False
    allowed = _allowed(answer.authorized_operations)
    return None if allowed is None else READ in allowed


def transactional_id_is_visible(wire: Wire, name: str) -> bool:
    """Whether we may look at it. Only a start asks whether we may write under it: asking fences."""
    told = _transactional_id(wire, name)
    return told is not None and told.error_code not in REFUSED


def producer_id(wire: Wire, name: str) -> int | None:
    """Of a transactional id, as of now; None where the brokers do not tell, or know of no such id."""
    told = _transactional_id(wire, name)
    return int(told.producer_id) if told is not None and told.error_code == 0 else None


def _transactional_id(wire: Wire, name: str) -> Any | None:
    """As its coordinator tells it; None where we may not even ask who that is."""
    request = DescribeTransactionsRequest(transactional_ids=[name])

    def ask() -> Any | None:
        (told,) = wire.call_coordinator(name, TRANSACTION, lambda: request).transaction_states
        if code(told.error_code).meaning in (Meaning.RETRY, Meaning.MOVED):
            wire.forget_coordinator(name, TRANSACTION)
            return None
        return told

    try:
        return wire.settle(ask, f"transactional id {name!r}")
    except BrokerRefused:
        return None


def _topic(topic: Any, settings: Mapping[str, str]) -> TopicFacts:
    return TopicFacts(
        name=topic.name,
        partitions=len(topic.partitions),
        replicas=min(len(it.replica_nodes) for it in topic.partitions),
        in_sync=min(len(it.isr_nodes) for it in topic.partitions),
        leaderless=sum(it.leader_id < 0 for it in topic.partitions),
        allowed=_allowed(topic.authorized_operations),
        settings=settings,
    )


def _allowed(numbers: set[int] | None) -> frozenset[int] | None:
    return None if numbers is None else frozenset(numbers)


def _transaction_version(wire: Wire) -> int:
    request = ApiVersionsRequest(client_software_name="onceward", client_software_version="1")
    answer = wire.settle(lambda: wire.call(wire.any_node(), request), "the cluster's features")
    levels = {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}
    return int(levels.get(FEATURE, 0))


def _settings(wire: Wire, kind: int, names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Effective values, a broker's own or a topic's; what we may not see is left out."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [resource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names]
    if not wanted:
        return {}
    node = int(wanted[0].resource_name) if kind == BROKER else wire.any_node()
    request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
    answer = wire.settle(lambda: wire.call(node, request), "the cluster's configuration")
    return {
        result.resource_name: {entry.name: entry.value for entry in result.configs if entry.value is not None}
        for result in answer.results
        if code(result.error_code).meaning is Meaning.ACCEPTED
    }
