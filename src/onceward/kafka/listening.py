"""Whether anybody listens where a broker should be: told within seconds, where a client would try for minutes."""

import socket
from typing import Final

from onceward.errors import BrokerUnreachable

CONNECT_S: Final = 3.0


def require_listening(bootstrap: str) -> None:
    """At one of the addresses; otherwise what each of them said."""
    if said := silence(bootstrap):
        raise BrokerUnreachable(
            f"{said}: check the address (bootstrap=), and that the broker runs (`onceward kafka start` starts one for "
            "development)"
        )


def silence(bootstrap: str) -> str:
    """Why nobody listens; empty: somebody does. Addresses that are none are left to the client."""
    said = []
    for server in (it.strip() for it in bootstrap.split(",")):
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit():
            return ""
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
        except OSError as error:
            said.append(f"{server}: {_reason(error)}")
        else:
            return ""
    return f"no Kafka broker listens at {bootstrap} ({'; '.join(said)})"


def _reason(error: OSError) -> str:
    if isinstance(error, socket.gaierror):
        return "there is no host of this name"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_S:.0f} s"
    return (error.strerror or str(error)).lower()
