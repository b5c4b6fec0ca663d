"""What the wire makes of each answer, and of none: the production wire on brokers that answer as the test says."""

from collections import deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError, KafkaTimeoutError, SaslAuthenticationFailedError
from kafka.protocol.metadata import MetadataRequest

from onceward.errors import BrokerRefused, BrokerUnreachable, SecretUnavailable, TransactionsUnsupported
from onceward.kafka.wire import (
    CONNECT_TIMEOUT_S,
    GROUP,
    REFUSED_S,
    SETTLE_TIMEOUT_S,
    TRANSACTION,
    AnswerLost,
    Cluster,
    Wire,
)
from onceward.secret import Exposure
from support.brokers import LOST, Brokers, said
from support.clocks import MONOTONIC

USER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "clear",
}
ANYTHING = MetadataRequest(topics=[], allow_auto_topic_creation=False)


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def wire(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Wire:
    return brokers.wire(monkeypatch)


class TestConnecting:
    def test_happens_at_first_use_once_and_again_after_a_close(self, brokers: Brokers, wire: Wire) -> None:
        wire.close()
        assert (brokers.opened, brokers.closed) == (0, 0)
        assert wire.client() is wire.client()
        wire.close()
        wire.close()
        assert (brokers.opened, brokers.closed) == (1, 1)
        wire.client()
        assert brokers.opened == 2

    def test_hands_on_settings_under_the_clients_names_and_looks_secrets_up(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
        settings = {**USER, "sasl.password": "${env:KAFKA_PASSWORD}", "client.id": "mine"}
        brokers.wire(monkeypatch, **settings).client()
        told = {name: brokers.settings[name] for name in ("sasl_plain_username", "sasl_plain_password", "client_id")}
        assert told == {"sasl_plain_username": "me", "sasl_plain_password": "hunter2", "client_id": "mine"}

    def test_nobody_is_asked_for_what_opens_a_key(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """OpenSSL would ask at the terminal, and a driver would wait there. The files are read anew each time."""
        loaded: list[tuple[str, ...]] = []
        monkeypatch.setattr("ssl.SSLContext.load_cert_chain", lambda _, *told: loaded.append(told))
        settings = {"security.protocol": "SSL", "ssl.certificate.location": str(tmp_path / "both.pem")}
        brokers.wire(monkeypatch, **settings).client()
        assert loaded == [(f"{tmp_path}/both.pem", f"{tmp_path}/both.pem", "")]
        assert (brokers.settings["ssl_certfile"], brokers.settings["ssl_password"]) == (f"{tmp_path}/both.pem", "")
        assert "ssl_context" not in brokers.settings

    def test_without_the_secret_is_refused_before_anybody_is_called(
        self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(SecretUnavailable, match="NOT_HERE"):
            brokers.wire(monkeypatch, **{**USER, "sasl.password": "${env:NOT_HERE}"}).client()
        assert brokers.opened == 0

    def test_that_is_refused_names_the_address_and_leaves_no_connection(self, brokers: Brokers, wire: Wire) -> None:
        brokers.refusal = KafkaTimeoutError("nobody")
        with pytest.raises(BrokerUnreachable, match=r"no Kafka broker at brokers:9092 let us in \(KafkaTimeoutError"):
            wire.client()
        assert (brokers.closed, brokers.waited) == (1, CONNECT_TIMEOUT_S)
        brokers.refusal = None
        assert wire.any_node() == 1

    def test_that_takes_its_time_succeeds(self, brokers: Brokers, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
        """A broker that starts: the reason is looked for early, and then the client goes on trying."""
        looked = iter([KafkaTimeoutError("nobody"), None])

        def check_version(timeout_ms: int) -> None:
            if (refusal := next(looked)) is not None:
                raise refusal

        monkeypatch.setattr(brokers, "check_version", check_version)
        assert wire.any_node() == 1
        assert (brokers.opened, brokers.closed) == (1, 0)

    def test_that_is_turned_away_is_told_soon_and_for_good(self, brokers: Brokers, wire: Wire) -> None:
        """I4: a wrong password is nothing that passes."""
        brokers.refusal, brokers.turned_away = KafkaTimeoutError("nobody"), BrokerRefused("wrong password")
        with pytest.raises(BrokerRefused, match="wrong password"):
            wire.client()
        assert (brokers.closed, brokers.waited) == (1, REFUSED_S)

    def test_that_is_turned_away_later_is_told_when_its_time_is_up(self, brokers: Brokers, wire: Wire) -> None:
        """I4: the password has changed while the pipeline ran, and connections are opened anew."""
        brokers.turned_away = BrokerRefused("wrong password")
        brokers.will("MetadataRequest", LOST)
        with pytest.raises(BrokerRefused, match="wrong password"):
            wire.topics(["t"])
        brokers.nodes = deque([None])
        with pytest.raises(BrokerRefused, match="wrong password"):
            wire.any_node()

    @pytest.mark.parametrize(
        ("settings", "exposure"),
        [
            ({}, Exposure.NOTHING),
            ({"security.protocol": "SSL"}, Exposure.NOTHING),
            ({**USER, "sasl.password": "${env:A}"}, Exposure.REFERENCES),
            (USER, Exposure.CLEAR),
        ],
    )
    def test_settings_tell_what_who_reads_them_learns_of_secrets(
        self, settings: dict[str, str], exposure: Exposure
    ) -> None:
        assert Cluster("a:1", settings).exposure is exposure


class TestCalls:
    def test_a_broker_to_ask_is_waited_for_with_a_deadline(self, brokers: Brokers, wire: Wire) -> None:
        brokers.nodes.extendleft([None, None])
        assert wire.any_node() == 1
        assert brokers.polled == [20, 20]
        brokers.nodes.clear()
        brokers.nodes.append(None)
        with pytest.raises(BrokerUnreachable, match="no broker of brokers:9092 is reachable"):
            wire.any_node()
        assert brokers.waited == pytest.approx(SETTLE_TIMEOUT_S, abs=1)

    @pytest.mark.parametrize("error", [KafkaConnectionError("gone"), OSError("reset")])
    def test_an_error_on_the_way_means_that_nobody_knows(self, brokers: Brokers, wire: Wire, error: Exception) -> None:
        brokers.will("MetadataRequest", error)
        with pytest.raises(AnswerLost, match=f"MetadataRequest to broker 1: {type(error).__name__}"):
            wire.call(1, ANYTHING)

    @pytest.mark.parametrize("error", [KafkaConnectionError("gone"), OSError("reset")])
    def test_a_request_that_cannot_leave_is_a_lost_answer_too(
        self, brokers: Brokers, wire: Wire, error: Exception
    ) -> None:
        brokers.will("MetadataRequest", error)
        future = wire.send(1, ANYTHING)
        assert future.is_done
        assert future.exception is error

    def test_a_throttle_is_heard_whoever_the_answer_is_for(self, brokers: Brokers, wire: Wire) -> None:
        """The client then lets no request onto that connection, for as long as it says."""
        brokers.will("MetadataRequest", *(said(throttle_time_ms=it) for it in (2000, 500, 0)), said())
        wire.send(1, ANYTHING)
        assert wire.free_at == pytest.approx(MONOTONIC + 2.0)
        brokers.sleep(1.8)
        wire.call(1, ANYTHING)
        assert wire.free_at == pytest.approx(MONOTONIC + 2.3)
        for _ in range(2):
            wire.call(1, ANYTHING)
        assert wire.free_at == pytest.approx(MONOTONIC + 2.3)

    def test_refused_credentials_are_no_lost_answer_and_are_not_asked_again(self, brokers: Brokers, wire: Wire) -> None:
        brokers.will("MetadataRequest", SaslAuthenticationFailedError("no"))
        with pytest.raises(BrokerRefused, match=r"refused our credentials: .*check sasl\.\* and ssl\.\*"):
            wire.topics(["t"])
        assert len(brokers.asked) == 1

    def test_waiting_is_told_in_whole_milliseconds_and_never_backwards(self, brokers: Brokers, wire: Wire) -> None:
        wire.poll(0.0219)
        wire.poll(-1.0)
        assert brokers.polled == [21, 0]

    def test_a_question_is_asked_until_it_has_an_answer_and_ends_at_its_deadline(
        self, brokers: Brokers, wire: Wire
    ) -> None:
        brokers.will("MetadataRequest", LOST, LOST, said(topics=[]))
        assert wire.topics(["t"]) == {}
        brokers.will("MetadataRequest", LOST)
        with pytest.raises(BrokerUnreachable, match=r"metadata could not be had from brokers:9092 within 60 s: Metada"):
            wire.topics(["t"])
        assert brokers.waited == pytest.approx(SETTLE_TIMEOUT_S, abs=1)


class TestOutages:
    """While somebody up there asks again and again, it is said that nobody answers."""

    class Said:
        def __init__(self) -> None:
            self.said: list[tuple[str, float]] = []
            self.over_times = 0

        def note(self, reason: str, since: float) -> None:
            self.said.append((reason, since))

        def over(self) -> None:
            self.over_times += 1

    def test_one_that_lasts_is_said_and_so_is_its_end(self, brokers: Brokers, wire: Wire) -> None:
        wire.outage = said = self.Said()
        brokers.will("MetadataRequest", *[LOST] * 200, SimpleNamespace(error_code=0, topics=[]))
        wire.topics(["t"])
        assert {since for _, since in said.said} == {MONOTONIC}
        assert 50 < len(said.said) < 150  # not in the first two seconds; whoever hears it says it now and then
        assert said.said[0][0] == "the brokers at brokers:9092 do not answer (KafkaConnectionError)"
        assert said.over_times == 1
        wire.topics(["t"])
        assert said.over_times == 1

    def test_no_broker_to_ask_is_one_too_and_without_anybody_to_tell_it_is_waited_for_all_the_same(
        self, brokers: Brokers, wire: Wire
    ) -> None:
        brokers.nodes.extendleft([None] * 150)
        assert wire.any_node() == 1
        brokers.will("MetadataRequest", LOST, SimpleNamespace(error_code=0, topics=[]))
        wire.topics(["t"])
        wire.outage = said = self.Said()
        brokers.nodes.extendleft([None] * 150)
        wire.topics(["t"])
        assert said.said[0][0] == "no broker of brokers:9092 is reachable"
        assert said.over_times == 1


class TestCoordinators:
    def test_one_is_waited_for_while_it_is_made_then_remembered(self, brokers: Brokers, wire: Wire) -> None:
        """Trap 4: after a broker's start 15, then 14 or 16."""
        answers = [said(coordinators=[said(number, node_id=-1)]) for number in (15, 14, 16)]
        brokers.will("FindCoordinatorRequest", LOST, *answers, said(coordinators=[said(node_id=7)]))
        assert wire.coordinator("p", GROUP) == 7
        assert wire.coordinator("p", GROUP) == 7
        assert len(brokers.requests("FindCoordinatorRequest")) == 5

    @pytest.mark.parametrize(("number", "name"), [(30, "GROUP_AUTHORIZATION_FAILED"), (47, "INVALID_PRODUCER_EPOCH")])
    def test_a_question_that_is_refused_is_not_repeated(
        self, brokers: Brokers, wire: Wire, number: int, name: str
    ) -> None:
        brokers.will("FindCoordinatorRequest", said(coordinators=[said(number, node_id=-1)]))
        with pytest.raises(BrokerRefused, match=rf"coordinator of 'p': {name}"):
            wire.coordinator("p", GROUP)
        assert len(brokers.asked) == 1

    def test_a_lost_answer_forgets_that_coordinator_and_no_other(self, brokers: Brokers, wire: Wire) -> None:
        """C8: it may have moved."""
        for kind in (GROUP, TRANSACTION):
            wire.coordinator("p", kind)
        brokers.will("MetadataRequest", LOST)
        with pytest.raises(AnswerLost):
            wire.call_coordinator("p", GROUP, lambda: ANYTHING)
        brokers.will("FindCoordinatorRequest", said(coordinators=[said(node_id=9)]))
        brokers.will("MetadataRequest", said())
        for kind in (GROUP, TRANSACTION):
            wire.call_coordinator("p", kind, lambda: ANYTHING)
        assert [node for node, request in brokers.asked if request is ANYTHING] == [1, 9, 1]


def topic(name: str, leaders: dict[int, int], error_code: int = 0) -> SimpleNamespace:
    parts = [SimpleNamespace(partition_index=index, leader_id=leader) for index, leader in leaders.items()]
    return said(error_code, name=name, partitions=parts)


def configs(*results: SimpleNamespace) -> SimpleNamespace:
    return said(results=results)


def setting(resource: str, value: str | None, error_code: int = 0) -> SimpleNamespace:
    entries = [SimpleNamespace(name="max.message.bytes", value=value)]
    return said(error_code, resource_name=resource, configs=entries)


class TestTopics:
    def test_each_has_its_leaders_and_one_without_is_still_electing(self, brokers: Brokers, wire: Wire) -> None:
        brokers.will("MetadataRequest", said(topics=[topic("a", {2: 5, 0: 4}), topic("b", {}), topic("c", {}, 3)]))
        assert wire.topics(["a", "b", "c", "a"]) == {"a": [4, -1, 5], "b": []}
        (request,) = brokers.requests("MetadataRequest")
        assert [each.name for each in request.topics] == ["a", "b", "c"]
        assert request.allow_auto_topic_creation is False

    def test_one_that_may_not_be_seen_is_refused_by_name(self, brokers: Brokers, wire: Wire) -> None:
        brokers.will("MetadataRequest", said(topics=[topic("a", {}, 29)]))
        with pytest.raises(BrokerRefused, match="topic 'a': not allowed to use the topic"):
            wire.topics(["a"])

    def test_settings_of_one_that_may_not_be_asked_are_none_and_of_an_unknown_one_are_not_told(
        self, brokers: Brokers, wire: Wire
    ) -> None:
        """A right that is missing is not a topic that is missing."""
        answers = configs(setting("a", "4321"), setting("b", None, 29), setting("c", None, 3))
        brokers.will("DescribeConfigsRequest", answers)
        assert wire.topic_settings(["a", "b", "c"]) == {"a": {"max.message.bytes": "4321"}, "b": {}}
        brokers.will("MetadataRequest", said(topics=[topic("a", {0: 1}), topic("b", {0: 1})]))
        with pytest.raises(BrokerRefused, match="how topic 'b' is set up may not be asked: allow DescribeConfigs"):
            wire.layouts(["a", "b"])

    @pytest.mark.parametrize(
        ("answer", "number"),
        [
            (configs(setting("1", "1500")), 1500),
            (configs(setting("1", None)), 99),
            (configs(setting("1", "1500", 31)), 99),
            (configs(), 99),
        ],
        ids=["told", "without a value", "not allowed", "nothing"],
    )
    def test_a_brokers_setting_or_what_is_usual_where_we_may_not_look(
        self, brokers: Brokers, wire: Wire, answer: Any, number: int
    ) -> None:
        brokers.will("DescribeConfigsRequest", answer)
        assert wire.broker_setting("transaction.max.timeout.ms", 99) == number

    def test_new_ones_are_waited_for_until_every_partition_has_a_leader(self, brokers: Brokers, wire: Wire) -> None:
        brokers.will("CreateTopicsRequest", said(topics=[said(name="a"), said(36, name="b")]))
        half = said(topics=[topic("a", {0: 1, 1: -1}), topic("b", {0: 1})])
        whole = said(topics=[topic("a", {0: 1, 1: 1}), topic("b", {0: 1})])
        brokers.will("MetadataRequest", said(topics=[topic("a", {0: 1})]), half, whole)
        wire.create_topics(["b", "a"], 2, replicas=3, settings={"retention.ms": "1"})
        (request,) = brokers.requests("CreateTopicsRequest")
        made = [(each.name, each.num_partitions, each.replication_factor) for each in request.topics]
        assert made == [("a", 2, 3), ("b", 2, 3)]
        assert [(entry.name, entry.value) for entry in request.topics[0].configs] == [("retention.ms", "1")]
        assert len(brokers.requests("MetadataRequest")) == 3

    def test_one_that_cannot_be_made_is_named_with_the_brokers_words(self, brokers: Brokers, wire: Wire) -> None:
        brokers.will("CreateTopicsRequest", said(topics=[said(38, name="a", error_message="too few brokers")]))
        with pytest.raises(BrokerRefused, match="topic 'a' could not be made: too few brokers"):
            wire.create_topics(["a"], 1, replicas=3)


class TestFeatures:
    @pytest.mark.parametrize("level", [2, 3])
    def test_a_cluster_with_the_repaired_protocol_is_taken(self, brokers: Brokers, wire: Wire, level: int) -> None:
        feature = SimpleNamespace(name="transaction.version", max_version_level=level)
        brokers.will("ApiVersionsRequest", said(finalized_features=[feature]))
        wire.require_transactions()

    @pytest.mark.parametrize("features", [None, [], [SimpleNamespace(name="transaction.version", max_version_level=1)]])
    def test_one_without_it_is_refused_with_the_way_to_it(
        self, brokers: Brokers, wire: Wire, features: list[Any] | None
    ) -> None:
        """C10: what a cluster does not say it does not have."""
        brokers.will("ApiVersionsRequest", said(finalized_features=features))
        with pytest.raises(
            TransactionsUnsupported, match=r"has transaction\.version [01]; .*kafka-features\.sh upgrade"
        ):
            wire.require_transactions()
