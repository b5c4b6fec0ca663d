"""A TCP proxy that loses things on purpose: connections, requests, answers."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Self

CHUNK = 1 << 16


@dataclass(eq=False)
class Trap:
    """Waits for bytes that a client sends; `sprung` once it has seen them and cut the connection."""

    pattern: bytes
    loses: Literal["request", "answer"]
    unnoticed: bool = False  # by the target, whose side stays open
    sprung: threading.Event = field(default_factory=threading.Event)

    def is_in(self, before: bytes, data: bytes) -> bool:
        """Also if it began in the chunk before; but not if it ended there."""
        start = max(0, len(before) - len(self.pattern) + 1)
        return self.pattern in before[start:] + data


@dataclass(eq=False)
class Link:
    """One connection through the proxy; `trap` holds back its answers once its request is on the way."""

    client: socket.socket
    server: socket.socket
    trap: Trap | None = None

    def close(self) -> None:
        _close(self.client)
        _close(self.server)


class Proxy:
    """Forwards a local port to a target.

    `cut` closes every connection now; `refusing` closes new ones at once; `delay_s` holds up every chunk.
    """

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.refusing = False
        self.delay_s = 0.0
        self._trap: Trap | None = None
        self._links: list[Link] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        _start(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Both sides of every connection see it closed."""
        links, self._links = self._links, []
        for link in links:
            link.close()

    def lose_request(self, pattern: bytes, *, unnoticed: bool = False) -> Trap:
        """The next request with these bytes never arrives, and its connection is cut.

        `unnoticed`: for the client only, as when a cable is pulled; the target waits on, until `cut`.
        """
        self._trap = Trap(pattern, "request", unnoticed)
        return self._trap

    def lose_answer(self, pattern: bytes) -> Trap:
        """The next request with these bytes arrives; when the target answers, the connection is cut instead."""
        self._trap = Trap(pattern, "answer")
        return self._trap

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                if self.refusing:
                    raise ConnectionRefusedError
                link = Link(client, socket.create_connection(self.target))
            except OSError:
                client.close()
                continue
            self._links.append(link)
            _start(lambda link=link: self._forward_requests(link))
            _start(lambda link=link: self._forward_answers(link))

    def _forward_requests(self, link: Link) -> None:
        before = b""
        with suppress(OSError):
            while data := link.client.recv(CHUNK):
                time.sleep(self.delay_s)
                trap = self._trap
                if trap is not None and trap.is_in(before, data):
                    self._trap = None
                    if trap.loses == "request":
                        trap.sprung.set()
                        if trap.unnoticed:
                            _close(link.client)
                            return
                        break
                    link.trap = trap
                before = data
                link.server.sendall(data)
        link.close()

    def _forward_answers(self, link: Link) -> None:
        with suppress(OSError):
            while (data := link.server.recv(CHUNK)) and link.trap is None:
                time.sleep(self.delay_s)
                link.client.sendall(data)
        if link.trap is not None:
            link.trap.sprung.set()
        link.close()


def _close(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)  # close alone does not wake a thread that reads from it
    side.close()


def _start(target: Callable[[], None]) -> None:
    threading.Thread(target=target, daemon=True).start()
