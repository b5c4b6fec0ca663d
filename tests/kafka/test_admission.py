"""Why a broker does not let us in, asked of brokers that answer as the test says: each way to be turned away, and each
way not to know. Real brokers' refusals: tests/cli/test_secured_kafka.py."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.sasl import SaslAuthenticateResponse, SaslHandshakeRequest, SaslHandshakeResponse

from onceward.errors import BrokerRefused, ConfigurationError
from onceward.kafka import admission
from onceward.kafka.admission import require_admission

TLS = {"security.protocol": "SSL"}
USER = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "me",
    "sasl.password": "let me in",
}
TAKES = ["SCRAM-SHA-512", "PLAIN"]


@contextmanager
def listening(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """Somebody who serves whoever comes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def each() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection, suppress(OSError):
                    serve(connection)

        served = threading.Thread(target=each, daemon=True)
        served.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    served.join(10)


def answering(*answers: Any) -> Callable[[socket.socket], None]:
    """A broker's answers, in its own bytes, each to the next question; then it hangs up."""

    def serve(connection: socket.socket) -> None:
        for answer in answers:
            asked = connection.recv(1 << 16)
            answer.with_header(correlation_id=int.from_bytes(asked[8:12], "big"))
            connection.sendall(answer.encode(framed=True, header=True))
        connection.recv(1 << 16)

    return serve


def hello(error_code: int) -> Any:
    return SaslHandshakeResponse(version=1, error_code=error_code, mechanisms=TAKES)


def verdict(error_code: int, message: str = "", auth_bytes: bytes = b"") -> Any:
    return SaslAuthenticateResponse(
        version=1, error_code=error_code, error_message=message, auth_bytes=auth_bytes, session_lifetime_ms=0
    )


def words(said: bytes) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.recv(1 << 16)
        connection.sendall(said)

    return serve


def test_where_nobody_listens_nobody_refuses() -> None:
    for settings in ({}, TLS, USER):
        require_admission("127.0.0.1:1, [::1]:1", settings)


class TestUsers:
    def test_who_is_taken_as_he_is_is_not_refused(self) -> None:
        with listening(answering(hello(0), verdict(0))) as server:
            require_admission(server, USER)
        with listening(answering(hello(34))) as server:
            require_admission(server, {})

    @pytest.mark.parametrize("number", [0, 33])
    def test_who_comes_without_a_user_is_told_which_are_taken(self, number: int) -> None:
        """I4."""
        says = r"asks for a user: security\.protocol is to be SASL_PLAINTEXT, .*SCRAM-SHA-512, PLAIN"
        with listening(answering(hello(number))) as server, pytest.raises(BrokerRefused, match=says):
            require_admission(server, {})

    def test_who_brings_a_user_where_none_is_asked_for_is_told(self) -> None:
        """I4."""
        says = r"asks for no user: .* security\.protocol is to be PLAINTEXT"
        with listening(answering(hello(34))) as server, pytest.raises(BrokerRefused, match=says):
            require_admission(server, USER)

    def test_a_mechanism_that_is_not_taken_is_told_with_those_that_are(self) -> None:
        """I4."""
        says = r"does not take sasl\.mechanism PLAIN; it takes SCRAM-SHA-512, PLAIN"
        with listening(answering(hello(33))) as server, pytest.raises(BrokerRefused, match=says):
            require_admission(server, USER)

    def test_a_user_that_is_refused_is_named_without_the_password(self) -> None:
        """I4, J4."""
        refused = answering(hello(0), verdict(58, "Invalid username or password"))
        with listening(refused) as server, pytest.raises(BrokerRefused, match=r"'me' .*\(Invalid user") as told:
            require_admission(server, USER)
        assert "let me in" not in str(told.value)

    def test_any_other_answer_refuses_nobody(self) -> None:
        with listening(answering(hello(0), verdict(35))) as server:
            require_admission(server, USER)

    @pytest.mark.parametrize("serve", [words(b""), words(b"HTTP/1.1 400 Bad Request\r\n\r\n")])
    def test_a_server_that_hangs_up_or_is_no_kafka_refuses_nobody(self, serve: Any) -> None:
        with listening(serve) as server:
            require_admission(server, USER)

    def test_an_answer_may_come_in_pieces(self) -> None:
        answer = hello(34)
        answer.with_header(correlation_id=1)
        whole = answer.encode(framed=True, header=True)
        pieces = iter([whole[:2], whole[2:6], whole[6:]])
        connection: Any = SimpleNamespace(sendall=lambda _: None, recv=lambda _: next(pieces))
        told = admission._asking(connection)(SaslHandshakeRequest(version=1, mechanism="PLAIN"))
        assert (told.error_code, told.mechanisms) == (34, TAKES)


class TestTls:
    def test_a_file_that_holds_no_certificates_is_named(self, tmp_path: Path) -> None:
        """I4."""
        with pytest.raises(
            ConfigurationError, match=r"ssl\.ca\.location '/no/such/file' cannot be read .*No such file"
        ):
            require_admission("127.0.0.1:1", {**TLS, "ssl.ca.location": "/no/such/file"})
        (tmp_path / "ca.pem").write_text("no certificate")
        with pytest.raises(ConfigurationError, match="cannot be read as certificates"):
            require_admission("127.0.0.1:1", {**TLS, "ssl.ca.location": str(tmp_path / "ca.pem")})
        with pytest.raises(ConfigurationError, match=r"ssl\.certificate\.location .*cannot be used: .*No such file"):
            require_admission("127.0.0.1:1", {**TLS, "ssl.certificate.location": "/no/such/file"})

    def test_a_port_without_tls_is_told(self) -> None:
        """I4."""
        with (
            listening(words(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server,
            pytest.raises(BrokerRefused, match=f"the broker at {server} does not speak TLS"),
        ):
            require_admission(server, TLS)

    @pytest.mark.parametrize(
        ("reason", "says"),
        [
            ("TLSV13_ALERT_CERTIFICATE_REQUIRED", r"alert certificate required\): .* ssl\.key\.location"),
            (None, ""),
            ("NO_PROTOCOLS_AVAILABLE", ""),
        ],
    )
    def test_an_alert_of_the_broker_is_told_and_anything_else_left_to_the_client(
        self, monkeypatch: pytest.MonkeyPatch, reason: str | None, says: str
    ) -> None:
        """I4: most likely it wants a certificate of ours."""
        error = ssl.SSLError(1, "by the test")
        error.reason = reason  # type: ignore[assignment] # as it is for errors without one
        monkeypatch.setattr(ssl.SSLContext, "wrap_socket", raising(error))
        with listening(words(b"")) as server:
            if not says:
                require_admission(server, TLS)
                return
            with pytest.raises(BrokerRefused, match=says):
                require_admission(server, TLS)

    def test_a_certificate_that_we_do_not_trust_is_told_with_the_setting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """I4."""
        error = ssl.SSLCertVerificationError(1, "certificate verify failed")
        error.verify_message = "self-signed certificate"
        monkeypatch.setattr(ssl.SSLContext, "wrap_socket", raising(error))
        says = r"\(self-signed certificate\): name the authority .*ssl\.ca\.location"
        with listening(words(b"")) as server, pytest.raises(BrokerRefused, match=says):
            require_admission(server, TLS)

    def test_who_comes_without_tls_where_it_is_spoken_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """I4: such a broker hangs up, or answers with an alert of TLS, which is a frame of 352 MB to a client."""
        monkeypatch.setattr(ssl.SSLContext, "wrap_socket", lambda _, plain: plain)
        for settings, protocol in (({}, "SSL"), (USER, "SASL_SSL")):
            for said in (b"", b"\x15\x03\x03\x00\x02\x02\x50"):
                with (
                    listening(words(said)) as server,
                    pytest.raises(BrokerRefused, match=rf"speaks TLS: security\.protocol is to be {protocol}"),
                ):
                    require_admission(server, settings)
        alert = ssl.SSLError(1, "by the test")
        alert.reason = "SSLV3_ALERT_HANDSHAKE_FAILURE"
        monkeypatch.setattr(ssl.SSLContext, "wrap_socket", raising(alert))
        with listening(words(b"")) as server, pytest.raises(BrokerRefused, match="speaks TLS"):
            require_admission(server, {})


def raising(error: Exception) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> None:
        raise error

    return refuse
