"""TCP proxies that break things on purpose: connections, one direction of them, a request, an answer, their speed.

Two threads carry each connection, and there are only so many connections; all threads end with the proxy.
"""

import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Self

Direction = Literal["requests", "answers"]
Pieces = Generator[bytes, None, None]

HOST: Final = "127.0.0.1"
CHUNK: Final = 1 << 16
CONNECTIONS: Final = 256  # at once, more are refused: a Spark driver with its executors needs some dozens
CONNECT_TIMEOUT_S: Final = 5.0  # a paused target takes no more connections once its backlog is full
END_TIMEOUT_S: Final = 2 * CONNECT_TIMEOUT_S


@dataclass(eq=False)
class Trap:
    """Waits for a request; `sprung` once it came by, before its connection is cut."""

    loses: Literal["request", "answer"]
    unnoticed: bool = False  # by the target, whose side stays open
    sprung: threading.Event = field(default_factory=threading.Event)


class Link:
    """One connection through a proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        self.shut: set[Direction] = set()
        self.closed = False
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what is forwarded does not wait for more

    def send(self, direction: Direction, piece: bytes) -> None:
        """Into the void, if that direction was shut down."""
        try:
            if direction not in self.shut:
                self._receiver(direction).sendall(piece)
        except OSError:
            if direction not in self.shut:  # by now
                raise

    def half_close(self, direction: Direction) -> None:
        self.shut.add(direction)
        with suppress(OSError):
            self._receiver(direction).shutdown(socket.SHUT_WR)

    def leave_client(self) -> None:
        """The client sees it closed, the target does not; what it answers goes into the void."""
        self.shut.add("answers")
        _close(self.client)

    def close(self) -> None:
        self.closed = True
        _close(self.client)
        _close(self.server)

    def _receiver(self, direction: Direction) -> socket.socket:
        return self.server if direction == "requests" else self.client


class Relay(ABC):
    """Forwards a local port to a target.

    `refusing` closes new connections at once; `delay_s` holds up every chunk; `mend` ends all of that.
    """

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.refusing = False
        self._delay_s = 0.0
        self._links: set[Link] = set()
        self._threads: list[threading.Thread] = []  # one for each connection, which starts and joins the second
        self._ended = False
        self._changed = threading.Condition()  # a delay, a trap, or a link that was closed
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._acceptor = _start(self._accept)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self.cut()
        deadline = time.monotonic() + END_TIMEOUT_S
        self._acceptor.join(END_TIMEOUT_S)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    @property
    def delay_s(self) -> float:
        """How long every chunk is held up, in both directions."""
        return self._delay_s

    @delay_s.setter
    def delay_s(self, seconds: float) -> None:
        with self._changed:
            self._delay_s = seconds
            self._changed.notify_all()

    @property
    def connections(self) -> int:
        """How many go through it now."""
        return len([link for link in self._current() if not link.closed])

    def mend(self) -> None:
        """Neither delay nor refuse nor lose anything from now on. Connections that were cut stay so."""
        self.refusing = False
        self.delay_s = 0.0

    def cut(self) -> None:
        """Both sides of every connection see it closed."""
        for link in self._current():
            self._close(link)

    def half_close(self, direction: Direction = "answers") -> None:
        """Shut down one direction of every connection.

        "answers": clients hear nothing more, and the target still reads what they send. "requests": the target hears
        nothing more, and clients still read what it answers.
        """
        for link in self._current():
            link.half_close(direction)

    @abstractmethod
    def _pieces(self, link: Link) -> tuple[Pieces, Pieces]:
        """What to forward: requests, answers. Where one of them ends, the connection is cut."""

    def _spring(self, trap: Trap, link: Link) -> None:
        """Cut the connection; or only for the client, and return when the target or `cut` has ended it."""
        trap.sprung.set()  # first: whoever sees the connection cut knows why
        if trap.unnoticed:
            link.leave_client()
        else:
            self._close(link)
        self._await_end(link)

    def _hold(self, link: Link, seconds: Callable[[], float]) -> None:
        """Wait so long, which may change meanwhile; no longer than the connection lasts."""
        began = time.monotonic()
        with self._changed:
            while not link.closed and (left := began + seconds() - time.monotonic()) > 0:
                self._changed.wait(left)

    def _await_end(self, link: Link) -> None:
        with self._changed:
            self._changed.wait_for(lambda: link.closed)

    def _close(self, link: Link) -> None:
        with self._changed:
            link.close()
            self._changed.notify_all()

    def _current(self) -> list[Link]:
        with self._changed:
            return list(self._links)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            if self.refusing or len(self._threads) >= CONNECTIONS:
                client.close()
            else:
                self._threads.append(_start(self._serve, client))

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self.target, timeout=CONNECT_TIMEOUT_S)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        link = Link(client, server)
        with self._changed:
            self._links.add(link)
        if self._ended:  # `cut` may not have seen it
            self._close(link)
        requests, answers = self._pieces(link)
        other = _start(self._carry, link, "answers", answers)
        self._carry(link, "requests", requests)
        other.join()
        with self._changed:
            self._links.discard(link)

    def _carry(self, link: Link, direction: Direction, pieces: Pieces) -> None:
        with suppress(OSError), closing(pieces):
            for piece in pieces:
                self._hold(link, lambda: self._delay_s)
                link.send(direction, piece)
        self._close(link)


class Proxy(Relay):
    """A relay for any protocol: a request is known by some of its bytes."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._armed: tuple[bytes, Trap] | None = None

    def mend(self) -> None:
        self._armed = None
        super().mend()

    def lose_request(self, pattern: bytes, *, unnoticed: bool = False) -> Trap:
        """The next request with these bytes never arrives, and its connection is cut.

        `unnoticed`: for the client only, as when a cable is pulled; the target waits on, until `cut`.
        """
        return self._arm(pattern, Trap("request", unnoticed))

    def lose_answer(self, pattern: bytes) -> Trap:
        """The next request with these bytes arrives; when the target answers, the connection is cut instead."""
        return self._arm(pattern, Trap("answer"))

    def _arm(self, pattern: bytes, trap: Trap) -> Trap:
        with self._changed:
            self._armed = (pattern, trap)
        return trap

    def _pieces(self, link: Link) -> tuple[Pieces, Pieces]:
        caught: list[Trap] = []  # its request is on its way, and no answer may pass
        return self._requests(link, caught), self._answers(link, caught)

    def _requests(self, link: Link, caught: list[Trap]) -> Pieces:
        before = b""
        while data := link.client.recv(CHUNK):
            trap = self._seen(before, data)
            if trap is not None and trap.loses == "request":
                self._spring(trap, link)
                return
            if trap is not None:
                caught.append(trap)
            before = data
            yield data

    def _answers(self, link: Link, caught: list[Trap]) -> Pieces:
        try:
            while (data := link.server.recv(CHUNK)) and not caught:
                yield data
        finally:  # also when the target died before it answered
            for trap in caught:
                self._spring(trap, link)

    def _seen(self, before: bytes, data: bytes) -> Trap | None:
        """The trap, if its bytes are here: also if they began in the chunk before, but not if they ended there."""
        with self._changed:
            if self._armed is None:
                return None
            pattern, trap = self._armed
            if pattern not in before[max(0, len(before) - len(pattern) + 1) :] + data:
                return None
            self._armed = None
            return trap


def _close(side: socket.socket) -> None:
    with suppress(OSError):
        side.shutdown(socket.SHUT_RDWR)  # close alone does not wake a thread that reads from it
    side.close()


def _start(target: Callable[..., None], *arguments: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=arguments, daemon=True)
    thread.start()
    return thread
