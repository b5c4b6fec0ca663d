"""Whether anybody listens at a broker's address."""

import socket

import pytest

from onceward.errors import BrokerUnreachable
from onceward.kafka.listening import require_listening


def nobody() -> str:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{reserved.getsockname()[1]}"


def test_one_that_listens_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_listening(f"{nobody()}, 127.0.0.1:{server.getsockname()[1]}")


def test_where_nobody_does_each_address_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """I3: a wrong port, a wrong host, a host that is cut off."""
    here, connect = nobody(), socket.create_connection

    def slow(address: tuple[str, int], timeout: float) -> socket.socket:
        if address[0] == "far":
            raise TimeoutError
        return connect(address, timeout=timeout)

    monkeypatch.setattr(socket, "create_connection", slow)
    said = rf"{here}: connection refused; far:1: no answer within 3 s; nowhere.invalid:1: there is no host of this name"
    with pytest.raises(BrokerUnreachable, match=rf"\({said}\): check the address \(bootstrap=\)"):
        require_listening(f"{here},far:1,nowhere.invalid:1")


@pytest.mark.parametrize("bootstrap", ["kafka", "kafka:", "kafka:port", ""])
def test_what_is_no_address_is_left_to_the_client(bootstrap: str) -> None:
    require_listening(bootstrap)
