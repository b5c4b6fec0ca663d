"""Requests to Kafka's brokers and their answers: an adapter over kafka-python's protocol classes and connections.

A request has three outcomes: an answer, `AnswerLost` (sent, and nobody knows whether it was carried
out), or an exception that means it was never sent. Callers decide what a lost answer means for them.
Not for use from several threads at once.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import kafka.errors
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.protocol.admin import CreateTopicsRequest, DescribeConfigsRequest
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, BrokerUnreachable, ConfigurationError, TransactionsUnsupported
from onceward.kafka.admission import require_admission
from onceward.kafka.codes import Meaning, code
from onceward.kafka.offsets import LATEST, id_text, offsets
from onceward.kafka.security import SECRETS, client_settings, require_usable
from onceward.secret import Exposure

GROUP: Final = 0  # coordinator types of FindCoordinator
TRANSACTION: Final = 1
REQUEST_TIMEOUT_MS: Final = 30_000  # Kafka's own default for request.timeout.ms
REFUSED_S: Final = 3.0  # a broker that runs lets a client in within a second
CONNECT_TIMEOUT_S: Final = 20.0  # a broker that restarts listens again within seconds
SETTLE_TIMEOUT_S: Final = 60.0  # a cluster that restarts elects leaders and loads logs well within this
RETRY_S: Final = 0.02
SAID_AFTER_S: Final = 2.0
LOOK_S: Final = 1.0  # a look at the cluster takes milliseconds; one that fails is tried again with the next call
OF_THE_TOPIC: Final = 1  # DescribeConfigs: set for this topic, not for all
TRANSACTION_VERSION: Final = 2  # KIP-890: every transaction has a producer epoch of its own

T = TypeVar("T")


class AnswerLost(Exception):
    """The request may or may not have been carried out."""


class Outage(Protocol):
    """Who says that the brokers do not answer, while somebody up there asks again and again."""

    def note(self, reason: str, since: float) -> None:
        """Since that moment of `time.monotonic`."""

    def over(self) -> None:
        """They answer."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where a Kafka cluster is and how to talk to it. Secrets stay out of its repr."""

    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for server in self.bootstrap.split(","):
            if not re.fullmatch(r"\s*(\[[0-9a-fA-F:.]+\]|[^\s:,\[\]]+):\d{1,5}\s*", server):
                raise ConfigurationError(
                    f"bootstrap {self.bootstrap!r} is not a list of host:port; give it as 'host:9092,other:9092'"
                )
        require_usable(self.settings)

    @property
    def exposure(self) -> Exposure:
        """What somebody who reads the settings learns of secrets."""
        return Exposure.of(self.settings[name] for name in SECRETS & set(self.settings))


@dataclass(frozen=True, slots=True)
class Layout:
    """How a topic was made; `settings`: those that differ from the brokers' defaults."""

    partitions: int
    replicas: int
    settings: Mapping[str, str]


class Wire:
    """Connections to one cluster, opened at first use."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.outage: Outage | None = None
        self._lost_since: float | None = None
        self._client: KafkaNetClient | None = None
        self._coordinators: dict[tuple[str, int], int] = {}
        self.free_at = 0.0  # until then a broker has asked to be left alone: a quota is used up

    def close(self) -> None:
        """Close every connection; the next call opens them again."""
        if self._client is not None:
            client, self._client = self._client, None
            client.close()
        self._coordinators.clear()

    def client(self) -> KafkaNetClient:
        """The connected client, bootstrapped."""
        if self._client is None:
            client = KafkaNetClient(
                bootstrap_servers=self.cluster.bootstrap.split(","),
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                # The sender keeps five requests in flight itself; the limit here only must not be lower.
                max_in_flight_requests_per_connection=16,
                receive_message_max_bytes=64 << 20,
                reconnect_backoff_ms=20,
                reconnect_backoff_max_ms=500,
                **{"client_id": "onceward", **client_settings(self.cluster.settings)},
            )
            try:
                self._enter(client)
            except BaseException:
                client.close()
                raise
            self._client = client
        return self._client

    def _enter(self, client: KafkaNetClient) -> None:
        """The client does not tell why it is not let in: so that is asked soon, and then it may go on trying."""
        try:
            client.check_version(timeout_ms=int(REFUSED_S * 1000))
        except kafka.errors.KafkaError:
            require_admission(self.cluster.bootstrap, self.cluster.settings)
        else:
            return
        try:
            client.check_version(timeout_ms=int((CONNECT_TIMEOUT_S - REFUSED_S) * 1000))
        except kafka.errors.KafkaError as error:
            raise self._unreachable(
                f"no Kafka broker at {self.cluster.bootstrap} let us in ({type(error).__name__}: {error}); check the "
                "address, that the broker runs, and the security settings"
            ) from error

    def _unreachable(self, said: str) -> BrokerUnreachable:
        """Unless there is a broker, which will not have us: that is raised."""
        require_admission(self.cluster.bootstrap, self.cluster.settings)
        return BrokerUnreachable(said)

    def any_node(self) -> int:
        """A broker to ask about the cluster as a whole."""
        client = self.client()
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        while (node := client.least_loaded_node()) is None:
            self._note_loss(f"no broker of {self.cluster.bootstrap} is reachable")
            self.poll(RETRY_S)
            if time.monotonic() > deadline:
                raise self._unreachable(f"no broker of {self.cluster.bootstrap} is reachable")
        return int(node)

    def send(self, node: int, request: object) -> Future:
        """Put a request on its way; `poll` until the future is done, with an exception if the answer is lost."""
        try:
            return self.client().send(node, request).add_callback(self._heard)
        except (kafka.errors.KafkaError, OSError) as error:
            self._look_again(error)
            return Future().failure(error)

    def poll(self, timeout_s: float, future: Future | None = None) -> None:
        """Let connections read and write for at most `timeout_s`, or until `future` is done."""
        self.client().poll(timeout_ms=max(0, int(timeout_s * 1000)), future=future)

    def call(self, node: int, request: object) -> Any:
        """Send, wait, answer. `AnswerLost` when nobody knows."""
        try:
            answer = self.client().send_and_receive(node, request, timeout_ms=REQUEST_TIMEOUT_MS)
        except kafka.errors.SaslAuthenticationFailedError as error:
            raise BrokerRefused(f"the broker refused our credentials: {error}; check sasl.* and ssl.*") from error
        except (kafka.errors.KafkaError, OSError) as error:
            self._look_again(error)
            self._note_loss(f"the brokers at {self.cluster.bootstrap} do not answer ({type(error).__name__})")
            raise AnswerLost(f"{type(request).__name__} to broker {node}: {type(error).__name__} {error}") from error
        self._heard(answer)
        if self._lost_since is not None:
            self._lost_since = None
            if self.outage is not None:
                self.outage.over()
        return answer

    def _heard(self, answer: Any) -> None:
        """Whoever the answer is for, the client lets no request onto that connection for as long as it says."""
        if throttle_ms := getattr(answer, "throttle_time_ms", 0):
            self.free_at = max(self.free_at, time.monotonic() + throttle_ms / 1000)

    def _note_loss(self, reason: str) -> None:
        """Said once it has lasted: a connection that breaks is nothing to speak of."""
        now = time.monotonic()
        self._lost_since = self._lost_since if self._lost_since is not None else now
        if self.outage is not None and now - self._lost_since >= SAID_AFTER_S:
            self.outage.note(reason, self._lost_since)

    def _look_again(self, error: Exception) -> None:
        """A broker that was away when the client looked is unknown to it, and would be for its next five minutes."""
        if isinstance(error, kafka.errors.UnknownBrokerIdError):
            self.poll(LOOK_S, self.client().cluster.request_update())

    def call_coordinator(self, key: str, kind: int, request: Callable[[], object]) -> Any:
        """Send to the coordinator of a group or a transactional id. A lost answer forgets who that was."""
        try:
            return self.call(self.coordinator(key, kind), request())
        except AnswerLost:
            self.forget_coordinator(key, kind)
            raise

    def forget_coordinator(self, key: str, kind: int) -> None:
        """Look the coordinator up again next time."""
        self._coordinators.pop((key, kind), None)

    def coordinator(self, key: str, kind: int) -> int:
        """The broker in charge of a group or a transactional id, waited for while it is being elected."""
        known = self._coordinators.get((key, kind))
        if known is not None:
            return known

        def look_up() -> int | None:
            request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
            found = self.call(self.any_node(), request).coordinators[0]
            return int(found.node_id) if self._settled(found.error_code, f"coordinator of {key!r}") else None

        node = self.settle(look_up, f"the coordinator of {key!r}")
        self._coordinators[key, kind] = node
        return node

    def metadata(self, names: Iterable[str] | None) -> Any:
        """The brokers, and these topics; None: all topics. None is made by asking."""
        wanted = None if names is None else [MetadataRequest.MetadataRequestTopic(name=it) for it in sorted(set(names))]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        return self.settle(lambda: self.call(self.any_node(), request), "the cluster's metadata")

    def topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        """The leaders of each existing topic's partitions (-1 while electing); a missing topic is left out."""
        found: dict[str, list[int]] = {}
        for topic in self.metadata(names).topics:
            if topic.error_code == 0:
                leaders = {p.partition_index: p.leader_id for p in topic.partitions}
                found[topic.name] = [leaders.get(index, -1) for index in range(max(leaders, default=-1) + 1)]
            elif code(topic.error_code).meaning is Meaning.REFUSED:
                raise BrokerRefused(f"topic {topic.name!r}: {code(topic.error_code).says}")
        return found

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """By which a topic is told from a later one of the same name; a missing topic is left out."""
        return {topic.name: id_text(topic.topic_id) for topic in self.metadata(names).topics if topic.error_code == 0}

    def layouts(self, names: Iterable[str]) -> dict[str, "Layout"]:
        """How each topic was made, to make another one like it; a missing topic is left out."""
        found = {topic.name: topic.partitions for topic in self.metadata(names).topics if topic.error_code == 0}
        entries = self._configured(found, None)
        if hidden := sorted(name for name in found if entries.get(name) is None):
            raise BrokerRefused(f"how topic {hidden[0]!r} is set up may not be asked: allow DescribeConfigs on it")
        return {
            name: Layout(
                partitions=len(partitions),
                replicas=max(len(it.replica_nodes) for it in partitions),
                settings={
                    entry.name: entry.value for entry in entries[name] or () if entry.config_source == OF_THE_TOPIC
                },
            )
            for name, partitions in found.items()
        }

    def ends(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        """The offset after the last record of every partition, committed or not."""
        return offsets(self, names, LATEST)

    def topic_settings(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """What counts of each topic's effective configuration; nothing where we may not look (DescribeConfigs)."""
        found = self._configured(names, ["max.message.bytes", "cleanup.policy"])
        return {name: {entry.name: entry.value for entry in entries or ()} for name, entries in found.items()}

    def broker_setting(self, name: str, otherwise: int) -> int:
        """A number from the brokers' configuration; `otherwise` where we may not look."""
        node = self.any_node()
        wanted = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=4, resource_name=str(node), configuration_keys=[name]
        )
        request = DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)
        answer = self.settle(lambda: self.call(node, request), "the brokers' configuration")
        values = [entry.value for result in answer.results if result.error_code == 0 for entry in result.configs]
        return int(values[0]) if values and values[0] is not None else otherwise

    def create_topics(
        self, names: Iterable[str], partitions: int, replicas: int = 1, settings: Mapping[str, str] | None = None
    ) -> None:
        """Make topics and wait until every partition has a leader; existing ones stay as they are."""
        topic = CreateTopicsRequest.CreatableTopic
        names = sorted(set(names))
        configs = [topic.CreatableTopicConfig(name=name, value=value) for name, value in (settings or {}).items()]
        wanted = [
            topic(name=name, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=configs)
            for name in names
        ]
        request = CreateTopicsRequest(topics=wanted, timeout_ms=REQUEST_TIMEOUT_MS, validate_only=False)
        answer = self.settle(lambda: self.call(self.any_node(), request), "the making of topics")
        for result in answer.topics:
            if result.error_code not in (0, 36):  # 36: it exists
                raise BrokerRefused(f"topic {result.name!r} could not be made: {result.error_message}")

        def led() -> bool | None:
            found = self.topics(names)
            return True if set(found) == set(names) and all(-1 not in leaders for leaders in found.values()) else None

        self.settle(led, "leaders for the new topics")

    def require_transactions(self) -> None:
        """Refuse a cluster without the repaired transaction protocol, and say why (C10)."""
        request = ApiVersionsRequest(client_software_name="onceward", client_software_version="1")
        answer = self.settle(lambda: self.call(self.any_node(), request), "the cluster's features")
        levels = {feature.name: feature.max_version_level for feature in answer.finalized_features or ()}
        level = levels.get("transaction.version", 0)
        if level < TRANSACTION_VERSION:
            raise TransactionsUnsupported(
                f"the cluster at {self.cluster.bootstrap} has transaction.version {level}; Onceward needs "
                f"{TRANSACTION_VERSION} (Kafka 4.0 or newer, KIP-890), because the older protocol can lose and tear "
                "transactions. Upgrade the brokers, then: kafka-features.sh upgrade --feature transaction.version=2"
            )

    def settle(self, attempt: Callable[[], T | None], what: str) -> T:
        """Repeat a harmless question until it has an answer, with a deadline."""
        deadline, reason = time.monotonic() + SETTLE_TIMEOUT_S, "no answer"
        while time.monotonic() < deadline:
            try:
                if (answer := attempt()) is not None:
                    return answer
            except AnswerLost as lost:
                reason = str(lost)
            time.sleep(RETRY_S)
        raise self._unreachable(
            f"{what} could not be had from {self.cluster.bootstrap} within {SETTLE_TIMEOUT_S:.0f} s: {reason}"
        )

    def _configured(self, names: Iterable[str], keys: list[str] | None) -> dict[str, list[Any] | None]:
        """None where we may not look; a topic that the broker does not know is left out."""
        resource = DescribeConfigsRequest.DescribeConfigsResource
        wanted = [resource(resource_type=2, resource_name=name, configuration_keys=keys) for name in sorted(set(names))]
        request = DescribeConfigsRequest(resources=wanted, include_synonyms=False, include_documentation=False)
        answer = self.settle(lambda: self.call(self.any_node(), request), "the topics' configuration")
        told = ((result, code(result.error_code).meaning) for result in answer.results)
        return {
            result.resource_name: list(result.configs) if meaning is Meaning.ACCEPTED else None
            for result, meaning in told
            if meaning in (Meaning.ACCEPTED, Meaning.REFUSED)
        }

    def _settled(self, number: int, what: str) -> bool:
        found = code(number)
        if found.meaning is Meaning.REFUSED or found.meaning is Meaning.IDENTITY_LOST:
            raise BrokerRefused(f"{what}: {found.name}, {found.says}")
        return found.meaning is Meaning.ACCEPTED
