"""Why a broker does not let us in: asked by a conversation of our own, where the client only says that time is up.

A broker that refuses a user hangs up right behind its answer, and kafka-python then drops the answer; one that wants
TLS, or a user, says nothing at all to who comes without. So does one that is not there: that is not looked into here.
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from kafka.errors import KafkaError
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from onceward.errors import BrokerRefused
from onceward.kafka.security import client_settings, protocol_of, tls_of

CONNECT_S: Final = 3.0
# What OpenSSL's releases call an answer that is none of TLS, or none at all.
NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"})
UNSUPPORTED_MECHANISM: Final = 33
NO_USERS: Final = 34  # ILLEGAL_SASL_STATE: the listener asks nobody who he is
REFUSED: Final = 58
ANSWER_BYTES: Final = 1 << 16


class _Silent(Exception):
    """It hung up without an answer."""


def require_admission(bootstrap: str, settings: Mapping[str, str]) -> None:
    """`BrokerRefused` if a broker listens there and will not have us as we are."""
    tls = tls_of(settings)
    for server in (it.strip() for it in bootstrap.split(",")):
        host, _, port = server.rpartition(":")
        address = host.strip("[]"), int(port)
        with suppress(OSError):  # nobody there
            try:
                _enter(server, address, tls, settings)
            except (_Silent, KafkaError, ConnectionError):
                if tls is None:
                    _require_no_tls(server, address, settings)


def _enter(server: str, address: tuple[str, int], tls: ssl.SSLContext | None, settings: Mapping[str, str]) -> None:
    with socket.create_connection(address, timeout=CONNECT_S) as plain:
        connection = plain
        try:
            if tls is not None:
                connection = tls.wrap_socket(plain, server_hostname=address[0])
            with connection:
                _introduce(server, _asking(connection), settings)
        except ssl.SSLError as error:
            _explain(server, error)


def _explain(server: str, error: ssl.SSLError) -> None:
    if isinstance(error, ssl.SSLCertVerificationError):
        raise BrokerRefused(
            f"we do not trust the certificate of the broker at {server} ({error.verify_message}): name the "
            "authority that signed it, as a PEM file (ssl.ca.location), and the host as the certificate does"
        ) from error
    if error.reason in NO_TLS:
        raise BrokerRefused(
            f"the broker at {server} does not speak TLS: another port does, or security.protocol is to be "
            "PLAINTEXT or SASL_PLAINTEXT"
        ) from error
    if "ALERT" in (error.reason or ""):
        raise BrokerRefused(
            f"the broker at {server} broke off TLS ({error.reason.lower().replace('_', ' ')}): most likely it asks "
            "clients for a certificate that it trusts (ssl.certificate.location, ssl.key.location)"
        ) from error


def _introduce(server: str, ask: Callable[[Any], Any], settings: Mapping[str, str]) -> None:
    """As the listener wants it: with a user, or without."""
    protocol, wanted = protocol_of(settings), settings.get("sasl.mechanism", "PLAIN")
    answer = ask(SaslHandshakeRequest(version=1, mechanism=wanted))
    if "SASL" not in protocol:
        if answer.error_code in {0, UNSUPPORTED_MECHANISM}:
            raise BrokerRefused(
                f"the broker at {server} asks for a user: security.protocol is to be SASL_{protocol}, with "
                f"sasl.mechanism ({', '.join(answer.mechanisms)}), sasl.username and sasl.password"
            )
        return
    if answer.error_code == NO_USERS:
        raise BrokerRefused(
            f"the broker at {server} asks for no user: another port does, or security.protocol is to be "
            f"{protocol.removeprefix('SASL_')}"
        )
    if answer.error_code == UNSUPPORTED_MECHANISM:
        raise BrokerRefused(
            f"the broker at {server} does not take sasl.mechanism {wanted}; it takes {', '.join(answer.mechanisms)}"
        )
    # kafka-python warns of passwords in the clear, again and again, where it is told that there is no TLS.
    mechanism = get_sasl_mechanism(wanted)(host=server, **{**client_settings(settings), "security_protocol": ""})
    while not mechanism.is_done():
        answer = ask(SaslAuthenticateRequest(version=1, auth_bytes=mechanism.auth_bytes()))
        if answer.error_code == REFUSED:
            raise BrokerRefused(
                f"the broker at {server} refused sasl.username {settings['sasl.username']!r} with its sasl.password, "
                f"by {wanted} ({answer.error_message}): correct them"
            )
        if answer.error_code:
            return
        mechanism.receive(answer.auth_bytes)


def _asking(connection: socket.socket) -> Callable[[Any], Any]:
    """One question after the other, each with its answer."""
    protocol = KafkaProtocol(client_id="onceward", receive_message_max_bytes=ANSWER_BYTES)

    def ask(request: Any) -> Any:
        protocol.send_request(request)
        connection.sendall(protocol.send_bytes())
        while True:
            received = connection.recv(ANSWER_BYTES)
            if not received:
                raise _Silent
            if answers := protocol.receive_bytes(received):
                return answers[0][1]

    return ask


def _require_no_tls(server: str, address: tuple[str, int], settings: Mapping[str, str]) -> None:
    """Who comes without TLS where it is spoken gets no answer: so it is tried, trusting anybody, to say nothing."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, timeout=CONNECT_S) as plain:
        try:
            anybody.wrap_socket(plain).close()
        except ssl.SSLError as error:
            if "ALERT" not in (error.reason or ""):
                return
    raise BrokerRefused(
        f"the broker at {server} speaks TLS: security.protocol is to be "
        f"{'SASL_SSL' if 'SASL' in protocol_of(settings) else 'SSL'}, or another port speaks none"
    )
