"""A proxy before a broker that knows where a request begins and ends, so that it can break one API and spare the rest.

It reads only what every request and answer begins with: the length, the API, the correlation id by which they match.
"""

import struct
from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from io import BufferedReader
from typing import Final

from onceward.proof.chaos.proxy import CHUNK, Link, Pieces, Relay, Trap

REQUEST: Final = struct.Struct(">ihhi")  # length, API, its version, correlation id
ANSWER: Final = struct.Struct(">ii")  # length, correlation id
LENGTH: Final = 4  # bytes of the length itself, which it does not count


class Api(IntEnum):
    """The requests that chaos singles out, by Kafka's own names and numbers."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    INIT_PRODUCER_ID = 22
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that went through and awaits its answer."""

    correlation: int
    api: int
    trap: Trap | None  # for the answer


class KafkaProxy(Relay):
    """A relay whose traps and delays are set by API. One trap per API waits at a time."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._traps: dict[int, tuple[Trap, float | None]] = {}  # and how late a lost request arrives, if it does
        self._answer_delays_s: dict[int, float] = {}

    def mend(self) -> None:
        self._traps.clear()
        self._answer_delays_s.clear()
        super().mend()  # wakes what was held up

    def lose_request_of(self, api: int) -> Trap:
        """The next request of this API never arrives, and its connection is cut."""
        return self._arm(api, Trap("request"))

    def lose_answer_of(self, api: int) -> Trap:
        """The next request of this API arrives; when the broker answers it, the connection is cut instead."""
        return self._arm(api, Trap("answer"))

    def delay_request_of(self, api: int, seconds: float) -> Trap:
        """The next request of this API arrives so much later; its client sees the connection closed at once.

        So it comes when the client may have given up long ago, repeated it, or gone on.
        """
        return self._arm(api, Trap("request", unnoticed=True), seconds)

    def delay_answers_of(self, api: int, seconds: float) -> None:
        """Hold up every answer to this API, and so what is behind it on its connection; 0 ends it."""
        with self._changed:
            self._answer_delays_s[api] = seconds
            self._changed.notify_all()

    def _arm(self, api: int, trap: Trap, late_s: float | None = None) -> Trap:
        self._traps[api] = (trap, late_s)
        return trap

    def _pieces(self, link: Link) -> tuple[Pieces, Pieces]:
        asked: deque[Asked] = deque()
        return self._requests(link, asked), self._answers(link, asked)

    def _requests(self, link: Link, asked: deque[Asked]) -> Pieces:
        with link.client.makefile("rb") as stream:
            while len(head := stream.read(REQUEST.size)) == REQUEST.size:
                length, api, _, correlation = REQUEST.unpack(head)
                request = _frame(stream, head, length)
                trap, late_s = self._traps.pop(api, (None, None))
                if trap is None or trap.loses == "answer":
                    asked.append(Asked(correlation, api, trap))
                    yield from request
                elif late_s is None:
                    self._spring(trap, link)
                else:
                    asked.append(Asked(correlation, api, Trap("answer")))  # which ends the connection
                    yield from self._late(link, b"".join(request), trap, late_s)

    def _late(self, link: Link, request: bytes, trap: Trap, seconds: float) -> Pieces:
        trap.sprung.set()
        link.leave_client()
        self._hold(link, lambda: seconds)
        yield request
        self._await_end(link)

    def _answers(self, link: Link, asked: deque[Asked]) -> Pieces:
        trap: Trap | None = None
        try:
            with link.server.makefile("rb") as stream:
                while trap is None and len(head := stream.read(ANSWER.size)) == ANSWER.size:
                    length, correlation = ANSWER.unpack(head)
                    api, trap = _question(asked, correlation)
                    if trap is None:
                        self._hold_answer(link, api)
                        yield from _frame(stream, head, length)
        finally:
            for lost in (trap, *(question.trap for question in asked)):  # the latter: the broker died without an answer
                if lost is not None:
                    self._spring(lost, link)

    def _hold_answer(self, link: Link, api: int) -> None:
        self._hold(link, lambda: self._answer_delays_s.get(api, 0.0))


def _question(asked: deque[Asked], correlation: int) -> tuple[int, Trap | None]:
    """What this answers. A broker answers in order; and not at all if a producer wants no acknowledgement."""
    while asked:
        question = asked.popleft()
        if question.correlation == correlation:
            return question.api, question.trap
    return -1, None


def _frame(stream: BufferedReader, head: bytes, length: int) -> Pieces:
    """All of it, piece by piece: a batch of records can be large."""
    left = length + LENGTH - len(head)
    while left and (more := stream.read1(min(left, CHUNK))):
        yield head + more
        head, left = b"", left - len(more)
    if head:
        yield head
