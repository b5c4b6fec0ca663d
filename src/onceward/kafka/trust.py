"""Why TLS with a broker does not come about: asked by one handshake, where the client only says that time is up."""

import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from onceward.errors import BrokerRefused

CONNECT_S: Final = 3.0
# What OpenSSL's releases call an answer that is none of TLS, or none at all.
NO_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNEXPECTED_EOF_WHILE_READING"})


def require_trust(bootstrap: str, settings: Mapping[str, str]) -> None:
    """`BrokerRefused` if a broker listens there and TLS is what fails; anything else is not looked into."""
    if "SSL" not in settings.get("security.protocol", ""):
        return
    try:
        trusted = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
    except OSError as error:
        raise BrokerRefused(
            f"ssl.ca.location {settings.get('ssl.ca.location')!r} cannot be read as certificates (PEM): "
            f"{error.strerror or error}"
        ) from error
    for server in (it.strip() for it in bootstrap.split(",")):
        host, _, port = server.rpartition(":")
        with suppress(OSError):  # nobody there, or a certificate of ours is wanted: not what is asked here
            _shake_hands(server, host.strip("[]"), int(port), trusted)


def _shake_hands(server: str, host: str, port: int, trusted: ssl.SSLContext) -> None:
    with socket.create_connection((host, port), timeout=CONNECT_S) as connection:
        try:
            trusted.wrap_socket(connection, server_hostname=host).close()
        except ssl.SSLCertVerificationError as error:
            raise BrokerRefused(
                f"we do not trust the certificate of the broker at {server} ({error.verify_message}): name the "
                "authority that signed it, as a PEM file (ssl.ca.location), and the host as the certificate does"
            ) from error
        except ssl.SSLError as error:
            if error.reason in NO_TLS:
                raise BrokerRefused(
                    f"the broker at {server} does not speak TLS: another port does, or security.protocol is to be "
                    "PLAINTEXT or SASL_PLAINTEXT"
                ) from error
