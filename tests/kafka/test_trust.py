"""Why TLS with a broker does not come about. A real broker's certificate: tests/cli/test_secured_kafka.py."""

import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onceward.errors import BrokerRefused
from onceward.kafka.trust import require_trust

TLS = {"security.protocol": "SASL_SSL"}


@pytest.fixture
def listener() -> Iterator[str]:
    """Somebody who answers whatever is said with words that are no TLS."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_nobody_is_asked_where_no_tls_is_wanted() -> None:
    require_trust("no such host:1", {})


def test_where_nobody_listens_it_is_not_trust_that_is_missing() -> None:
    require_trust("127.0.0.1:1, [::1]:1", TLS)


def test_a_file_that_holds_no_certificates_is_named(tmp_path: Path) -> None:
    """I4."""
    with pytest.raises(BrokerRefused, match=r"ssl\.ca\.location '/no/such/file' cannot be read .*No such file"):
        require_trust("127.0.0.1:1", {**TLS, "ssl.ca.location": "/no/such/file"})
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(BrokerRefused, match="cannot be read as certificates"):
        require_trust("127.0.0.1:1", {**TLS, "ssl.ca.location": str(tmp_path / "ca.pem")})


def test_a_port_without_tls_is_told(listener: str) -> None:
    """I4."""
    with pytest.raises(BrokerRefused, match=f"the broker at {listener} does not speak TLS"):
        require_trust(listener, TLS)


def test_what_is_no_question_of_trust_is_left_to_the_client(listener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that wants a certificate of ours, for one: what it says is the client's to tell."""

    error = ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED]")
    error.reason = "TLSV13_ALERT_CERTIFICATE_REQUIRED"

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", refuse)
    require_trust(listener, TLS)


def test_a_certificate_that_we_do_not_trust_is_told_with_the_setting(
    listener: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I4."""
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = "self-signed certificate"

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", refuse)
    with pytest.raises(BrokerRefused, match=r"\(self-signed certificate\): name the authority .*ssl\.ca\.location"):
        require_trust(listener, TLS)
