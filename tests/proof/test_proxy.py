"""The proxy of a chaos run on plain sockets: it loses, delays and cuts what it was told to, and nothing else (G1)."""

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from onceward.proof.chaos import proxy as proxies
from onceward.proof.chaos.proxy import Proxy, Relay
from support.waiting import eventually

HELD_S = 600.0  # longer than any test: what is held up this long does not come by itself


class Target:
    """Takes connections one by one, and remembers what each has said."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def accept(self) -> socket.socket:
        self._listener.settimeout(30)
        connection, _ = self._listener.accept()
        connection.settimeout(30)
        return connection

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def target() -> Iterator[Target]:
    with closing(Target()) as target:
        yield target


@pytest.fixture
def proxy(target: Target) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", target.port) as proxy:
        yield proxy


@contextmanager
def connected(relay: Relay, target: Target) -> Iterator[tuple[socket.socket, socket.socket]]:
    """The client's end and the target's."""
    with socket.create_connection(("127.0.0.1", relay.port), timeout=30) as client, target.accept() as server:
        eventually(lambda: relay.connections == 1, "the proxy carries it", 30)
        yield client, server


def read(side: socket.socket, size: int) -> bytes:
    """So many bytes, or those until the end."""
    data = b""
    while len(data) < size and (more := side.recv(size - len(data))):
        data += more
    return data


def is_closed(side: socket.socket) -> bool:
    try:
        return side.recv(1) == b""
    except ConnectionResetError:
        return True


def test_bytes_pass_in_both_directions(proxy: Proxy, target: Target) -> None:
    with connected(proxy, target) as (client, server):
        client.sendall(b"question")
        assert read(server, 8) == b"question"
        server.sendall(b"answer")
        assert read(client, 6) == b"answer"
        assert proxy.connections == 1


def test_a_cut_closes_both_sides_and_new_connections_pass(proxy: Proxy, target: Target) -> None:
    with connected(proxy, target) as (client, server):
        proxy.cut()
        assert is_closed(client)
        assert is_closed(server)
        assert proxy.connections == 0
    with connected(proxy, target) as (client, server):
        client.sendall(b"again")
        assert read(server, 5) == b"again"


def test_a_refusing_proxy_takes_nobody_in_until_it_is_mended(proxy: Proxy, target: Target) -> None:
    proxy.refusing = True
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=30) as client:
        assert is_closed(client)
    proxy.mend()
    with connected(proxy, target) as (client, server):
        client.sendall(b"in")
        assert read(server, 2) == b"in"


def test_a_target_that_is_away_is_a_closed_connection(proxy: Proxy, target: Target) -> None:
    target.close()
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=30) as client:
        assert is_closed(client)


def test_a_delay_holds_up_what_is_sent_and_an_end_of_it_lets_it_through(proxy: Proxy, target: Target) -> None:
    with connected(proxy, target) as (client, server):
        proxy.delay_s = 0.3
        began = time.monotonic()
        client.sendall(b"slow")
        assert read(server, 4) == b"slow"
        assert time.monotonic() - began >= 0.3
        proxy.delay_s = HELD_S
        client.sendall(b"held")
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.recv(1)
        server.settimeout(30)
        proxy.mend()
        assert read(server, 4) == b"held"


def test_a_cut_does_not_wait_for_a_delay(proxy: Proxy, target: Target) -> None:
    with connected(proxy, target) as (client, server):
        proxy.delay_s = HELD_S
        client.sendall(b"held")
        proxy.cut()
        assert is_closed(client)
        assert is_closed(server)


def test_a_client_that_hears_no_more_answers_is_still_heard(proxy: Proxy, target: Target) -> None:
    with connected(proxy, target) as (client, server):
        proxy.half_close("answers")
        assert is_closed(client)
        client.sendall(b"still here")
        assert read(server, 10) == b"still here"
        server.sendall(b"into the void")
        client.sendall(b"and here")
        assert read(server, 8) == b"and here"


def test_a_target_that_hears_no_more_requests_still_answers(proxy: Proxy, target: Target) -> None:
    with connected(proxy, target) as (client, server):
        proxy.half_close("requests")
        assert is_closed(server)
        server.sendall(b"the rest")
        assert read(client, 8) == b"the rest"
        client.sendall(b"into the void")
        server.sendall(b"and more")
        assert read(client, 8) == b"and more"


def test_a_lost_request_does_not_arrive_even_if_it_comes_in_two_pieces(proxy: Proxy, target: Target) -> None:
    trap = proxy.lose_request(b"COMMIT")
    with connected(proxy, target) as (client, server):
        client.sendall(b"BEGIN COM")
        assert read(server, 9) == b"BEGIN COM"
        client.sendall(b"MIT")
        assert trap.sprung.wait(30)
        assert is_closed(client)
        assert is_closed(server)


def test_a_lost_answer_is_one_to_a_request_that_arrived(proxy: Proxy, target: Target) -> None:
    trap = proxy.lose_answer(b"COMMIT")
    with connected(proxy, target) as (client, server):
        client.sendall(b"COMMIT")
        assert read(server, 6) == b"COMMIT"
        assert not trap.sprung.is_set()
        server.sendall(b"done")
        assert trap.sprung.wait(30)
        assert is_closed(client)


def test_an_answer_is_also_lost_when_the_target_dies_first(proxy: Proxy, target: Target) -> None:
    trap = proxy.lose_answer(b"COMMIT")
    with connected(proxy, target) as (client, server):
        client.sendall(b"COMMIT")
        assert read(server, 6) == b"COMMIT"
        server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset, as after a kill
        server.close()
        assert trap.sprung.wait(30)
        assert is_closed(client)


def test_a_request_lost_unnoticed_leaves_the_target_waiting(proxy: Proxy, target: Target) -> None:
    trap = proxy.lose_request(b"COMMIT", unnoticed=True)
    with connected(proxy, target) as (client, server):
        client.sendall(b"COMMIT")
        assert trap.sprung.wait(30)
        assert is_closed(client)
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.recv(1)
        server.settimeout(30)
        proxy.cut()
        assert is_closed(server)


def test_connections_beyond_the_bound_are_refused(
    proxy: Proxy, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxies, "CONNECTIONS", 1)
    with connected(proxy, target), socket.create_connection(("127.0.0.1", proxy.port), timeout=30) as second:
        assert is_closed(second)
    eventually(lambda: proxy.connections == 0, "the first is gone")

    def passes() -> bool:
        with socket.create_connection(("127.0.0.1", proxy.port), timeout=1) as client:
            try:
                return client.recv(1) != b""
            except TimeoutError:
                return True

    eventually(passes, "there is room again")


def test_every_thread_ends_with_its_proxy(target: Target) -> None:
    before = threading.active_count()
    with Proxy("127.0.0.1", target.port) as proxy:
        ends = []
        for _ in range(5):
            ends += [socket.create_connection(("127.0.0.1", proxy.port), timeout=30), target.accept()]
        proxy.delay_s = HELD_S
        ends[0].sendall(b"held")
        eventually(lambda: threading.active_count() == before + 11, "all are carried", 30)
    assert threading.active_count() == before
    for end in ends:
        end.close()
