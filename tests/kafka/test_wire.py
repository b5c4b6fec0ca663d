"""The door to Kafka: an answer, a lost answer, or never sent; and what is refused before anything is sent."""

import socket
import threading
import time
from typing import Any

import pytest
from kafka.errors import UnknownBrokerIdError
from kafka.future import Future
from kafka.protocol.metadata import MetadataRequest

from onceward.errors import BrokerRefused, BrokerUnreachable, ConfigurationError
from onceward.kafka import wire as wire_module
from onceward.kafka.codes import _TABLE, Meaning, code
from onceward.kafka.wire import TRANSACTION, AnswerLost, Cluster, Wire

USER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "clear",
}
ANYTHING = MetadataRequest(topics=[], allow_auto_topic_creation=False)


class TestCluster:
    @pytest.mark.parametrize("bootstrap", ["localhost:9092", "a:1,b:2", "a:1, b:2", "10.0.0.1:9092", "[::1]:9092"])
    def test_a_list_of_hosts_and_ports_is_taken(self, bootstrap: str) -> None:
        assert Cluster(bootstrap).bootstrap == bootstrap

    @pytest.mark.parametrize("bootstrap", ["", "localhost", "localhost:", ":9092", "a:1,,b:2", "a:b", "http://a:1"])
    def test_anything_else_is_refused_with_an_example(self, bootstrap: str) -> None:
        with pytest.raises(ConfigurationError, match="not a list of host:port; give it as 'host:9092,other:9092'"):
            Cluster(bootstrap)

    def test_an_unknown_setting_is_named_with_the_known_ones(self) -> None:
        with pytest.raises(
            ConfigurationError, match=r"unknown Kafka setting acks; known settings are .*sasl\.password"
        ):
            Cluster("a:1", {"acks": "1", "client.id": "x"})

    def test_secrets_stay_out_of_what_is_printed(self) -> None:
        assert "hunter2" not in repr(Cluster("a:1", {**USER, "sasl.password": "hunter2"}))

    @pytest.mark.parametrize(
        ("settings", "says"),
        [
            ({"client.id": ""}, "client.id is empty"),
            ({"client.id": None}, "client.id is empty"),
            ({"security.protocol": "sasl_ssl"}, "'sasl_ssl' is not known; use one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
            ({"sasl.username": "me"}, "sasl.username would have no effect .*=PLAINTEXT; set it to SASL_PLAINTEXT or"),
            ({"ssl.ca.location": "a"}, "ssl.ca.location would have no effect .*=PLAINTEXT; set it to SSL or SASL_SSL"),
            ({**USER, "ssl.ca.location": "a"}, "ssl.ca.location would have no effect .*=SASL_PLAINTEXT"),
            ({**USER, "sasl.mechanism": "GSSAPI"}, "'GSSAPI' is not supported; use one of PLAIN, SCRAM-SHA-256"),
            ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing; use one of PLAIN"),
            ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "needs sasl.password and sasl.username"),
            ({"security.protocol": "SSL", "ssl.key.location": "a", "ssl.key.password": "b"}, "without ssl.certificate"),
        ],
    )
    def test_a_setting_that_would_have_no_effect_is_refused(self, settings: Any, says: str) -> None:
        """J4: whoever gives a password or an authority believes that it is used."""
        with pytest.raises(ConfigurationError, match=says):
            Cluster("a:1", settings)


class TestCodes:
    def test_each_number_stands_once_in_the_table(self) -> None:
        numbers = [row.number for row in _TABLE]
        assert len(set(numbers)) == len(numbers)

    def test_a_broker_that_failed_without_saying_how_is_not_asked_the_same_again(self) -> None:
        assert code(-1).meaning is Meaning.REFUSED

    @pytest.mark.parametrize("number", [-2, 4, 999])
    def test_a_number_that_is_not_in_the_table_is_refused_not_guessed(self, number: int) -> None:
        assert code(number).meaning is Meaning.REFUSED
        assert code(number).name == f"ERROR_{number}"

    @pytest.mark.parametrize("number", [47, 48, 49, 59, 90, 120])
    def test_answers_that_end_a_transaction_never_look_like_a_refusal(self, number: int) -> None:
        """C6, C9: they must lead to the question who owns the pipeline."""
        assert code(number).meaning is Meaning.IDENTITY_LOST


class TestCalls:
    def test_a_closed_wire_opens_again_at_the_next_call(self, lab: Any) -> None:
        wire = lab.wire_of(Wire)
        for _ in range(2):
            assert wire.call(wire.any_node(), ANYTHING).brokers
            wire.close()

    def test_an_answer_that_does_not_come_in_time_is_lost_and_the_wire_goes_on(
        self, own: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """C1: a paused broker keeps connections open and says nothing."""
        monkeypatch.setattr(wire_module, "REQUEST_TIMEOUT_MS", 500)
        wire = own.wire_of(Wire)
        node = wire.any_node()
        own.broker.pause()
        try:
            with pytest.raises(AnswerLost, match=rf"MetadataRequest to broker {node}: "):
                wire.call(node, ANYTHING)
        finally:
            own.broker.resume()
        assert wire.settle(lambda: wire.call(node, ANYTHING), "metadata").brokers

    def test_a_lost_answer_forgets_who_the_coordinator_was(self, lab: Any) -> None:
        """C8: it may have moved."""

        class Moved(Wire):
            lose = False

            def call(self, node: int, request: object) -> Any:
                if self.lose:
                    raise AnswerLost("by the test")
                return super().call(node, request)

        wire, name = lab.wire_of(Moved), lab.name()
        node = wire.coordinator(name, TRANSACTION)
        assert (name, TRANSACTION) in wire._coordinators
        wire.lose = True
        with pytest.raises(AnswerLost):
            wire.call_coordinator(name, TRANSACTION, lambda: ANYTHING)
        assert (name, TRANSACTION) not in wire._coordinators
        wire.lose = False
        assert wire.coordinator(name, TRANSACTION) == node

    def test_a_question_without_an_answer_ends_at_its_deadline(self, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(wire_module, "SETTLE_TIMEOUT_S", 0.2)
        with pytest.raises(BrokerUnreachable, match=rf"the weather could not be had from {lab.cluster.bootstrap}"):
            lab.wire.settle(lambda: None, "the weather")

    def test_a_server_that_is_no_kafka_is_named_in_bounded_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Proof, bad input: a wrong port."""
        monkeypatch.setattr(wire_module, "CONNECT_TIMEOUT_S", 1.0)
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            closing = threading.Thread(target=hang_up, args=(server,), daemon=True)
            closing.start()
            wire, began = Wire(Cluster(f"127.0.0.1:{port}")), time.monotonic()
            with pytest.raises(BrokerUnreachable, match=rf"no Kafka broker at 127.0.0.1:{port}"):
                wire.client()
            assert time.monotonic() - began < 10
            server.shutdown(socket.SHUT_RDWR)
            closing.join(10)


def hang_up(server: socket.socket) -> None:
    """Take every call and end it without a word."""
    while True:
        try:
            caller, _ = server.accept()
        except OSError:
            return
        caller.close()


class TestBrokersThatWereAway:
    """The client forgets brokers that are away when it looks at the cluster, and does not look again by itself."""

    class Client:
        """Knows no broker 2 until it is told to look again."""

        def __init__(self) -> None:
            self.cluster, self.knows = self, False

        def request_update(self) -> Future:
            return Future()

        def poll(self, *, timeout_ms: int, future: Future) -> None:
            """Nothing happens on a connection before somebody lets it."""
            assert timeout_ms
            self.knows = True
            future.success(self)

        def send_and_receive(self, node: int, request: object, **_: object) -> object:
            return self.send(node, request).value

        def send(self, node: int, _request: object) -> Future:
            if not self.knows:
                raise UnknownBrokerIdError(node)
            return Future().success("answered")

    @pytest.fixture
    def wire(self) -> Wire:
        wire = Wire(Cluster("localhost:9092"))
        wire._client = self.Client()
        return wire

    def test_a_call_is_answered_once_it_has_looked_again(self, wire: Wire) -> None:
        with pytest.raises(AnswerLost, match="UnknownBrokerId"):
            wire.call(2, "question")
        assert wire.call(2, "question") == "answered"

    def test_so_is_what_is_only_sent(self, wire: Wire) -> None:
        assert wire.send(2, "question").failed()
        assert wire.send(2, "question").value == "answered"


class TestTopics:
    def test_a_topics_leaders_are_listed_and_a_missing_topic_is_left_out(self, lab: Any) -> None:
        topic, missing = lab.topic(3), lab.name("missing")
        assert lab.wire.topics([topic, missing]) == {topic: [1, 1, 1]}
        assert lab.wire.topics([missing]) == {}

    def test_making_a_topic_twice_leaves_it_as_it_is(self, lab: Any) -> None:
        topic = lab.topic(2)
        lab.wire.create_topics([topic], 5)
        assert lab.wire.topics([topic]) == {topic: [1, 1]}

    def test_a_topic_that_cannot_be_made_is_named(self, lab: Any) -> None:
        with pytest.raises(BrokerRefused, match="'no such/topic' could not be made"):
            lab.wire.create_topics(["no such/topic"], 1)

    def test_a_topics_limit_is_told(self, lab: Any) -> None:
        topic = lab.topic(1, **{"max.message.bytes": "4321"})
        assert lab.wire.topic_settings([topic]) == {topic: {"max.message.bytes": "4321", "cleanup.policy": "delete"}}
