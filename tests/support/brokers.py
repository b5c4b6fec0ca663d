"""Brokers that answer as a test says, for answers that a real one gives only by chance.

They stand where kafka-python's client does, so that the production wire and all above it run on them with the real
request classes. Time passes only while somebody waits.
"""

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.future import Future

from onceward.kafka import wire as wire_module
from onceward.kafka.wire import Cluster, Wire
from support.clocks import MONOTONIC

LOST = KafkaConnectionError("by the test")


def said(error_code: int = 0, **fields: Any) -> SimpleNamespace:
    """An answer, with what somebody reads of it."""
    return SimpleNamespace(error_code=error_code, **fields)


class Brokers:
    """In place of `KafkaNetClient`. To each kind of request the answers of its script, the last one for ever."""

    def __init__(self) -> None:
        self.now = MONOTONIC
        self.settings: dict[str, Any] = {}
        self.opened, self.closed = 0, 0
        self.refusal: Exception | None = None  # of the very first request
        self.turned_away: Exception | None = None  # what they say to who asks why
        self.nodes: deque[int | None] = deque([1])
        self.asked: list[tuple[int, Any]] = []
        self.polled: list[int] = []
        self._scripts: dict[str, deque[Any]] = {}
        self.will("FindCoordinatorRequest", said(coordinators=[said(node_id=1)]))

    def wire(self, monkeypatch: pytest.MonkeyPatch, **settings: str) -> Wire:
        """The production wire, connected to these brokers at its first use."""
        monkeypatch.setattr(wire_module, "KafkaNetClient", self._open)
        monkeypatch.setattr(wire_module, "require_admission", self._admit)
        monkeypatch.setattr(wire_module, "time", SimpleNamespace(monotonic=self.clock, sleep=self.sleep))
        return Wire(Cluster("brokers:9092", settings))

    def will(self, kind: str, *answers: Any) -> None:
        """Answer so from now on; an exception is a lost answer, or whatever it says."""
        self._scripts[kind] = deque(answers)

    def requests(self, kind: str) -> list[Any]:
        return [request for _, request in self.asked if type(request).__name__ == kind]

    @property
    def waited(self) -> float:
        """How much time has passed."""
        return self.now - MONOTONIC

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def check_version(self, timeout_ms: int) -> None:
        self.now += timeout_ms / 1000 if self.refusal is not None else 0
        if self.refusal is not None:
            raise self.refusal

    def least_loaded_node(self) -> int | None:
        return self.nodes.popleft() if len(self.nodes) > 1 else self.nodes[0]

    def send_and_receive(self, node: int, request: Any, timeout_ms: int) -> Any:
        assert timeout_ms == wire_module.REQUEST_TIMEOUT_MS
        return self._answer(node, request)

    def send(self, node: int, request: Any) -> Future:
        return Future().success(self._answer(node, request))

    def poll(self, timeout_ms: int, future: Future | None) -> None:  # noqa: ARG002 - as the client has it
        self.polled.append(timeout_ms)
        self.now += timeout_ms / 1000

    def close(self) -> None:
        self.closed += 1

    def _admit(self, _bootstrap: str, _settings: object) -> None:
        if self.turned_away is not None:
            raise self.turned_away

    def _open(self, **settings: Any) -> "Brokers":
        self.opened += 1
        self.settings = settings
        return self

    def _answer(self, node: int, request: Any) -> Any:
        self.asked.append((node, request))
        script = self._scripts[type(request).__name__]
        answer = script.popleft() if len(script) > 1 else script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer
