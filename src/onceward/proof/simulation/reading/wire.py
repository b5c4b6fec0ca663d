"""A cluster behind a wire that answers slowly, emptily, throttled, in pieces, twice, or not at all.

Stands in for `onceward.kafka.wire.Wire`: the production readers and the production sender run on it with Kafka's own
request and response classes. Time passes only while somebody waits.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.errors import KafkaConnectionError, NodeNotReadyError
from kafka.future import Future

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.wire import Cluster
from onceward.proof.simulation.reading.schedule import Trouble
from onceward.proof.simulation.world import BEGAN

NODES: Final = (1, 2)
MOVED: Final = 6
CODES: Final = (MOVED, 3, 5, 7, 56, 74, 75, 78)  # that say: later, or elsewhere
IN_FLIGHT: Final = 16  # of a connection
MOST_POLLS: Final = 20_000
QUICK_S: Final = 0.001


class Stuck(Exception):
    """Somebody waits in circles."""


@dataclass(slots=True)
class _Sent:
    node: int
    request: Any
    future: Future
    due: float
    trouble: Trouble | None


@dataclass(slots=True)
class Net:
    """Connections to two brokers, and everything that happens to what is sent through them."""

    troubles: Sequence[Trouble]
    answer: Callable[["Net", Any, Trouble | None], Any]  # what a leader says
    story: list[str] | None = None
    policies: Mapping[str, str] = field(default_factory=dict)  # of topics, where brokers tell
    partitions: Mapping[str, int] = field(default_factory=dict)
    now: float = BEGAN
    requests: int = 0
    free_at: float = 0.0  # when what brokers have asked for is over
    silent_until: float = 0.0
    polls: int = 0
    cluster: Cluster = field(default_factory=lambda: Cluster("simulated:9092"))
    reached: set[str] = field(default_factory=set)
    _leader: int = NODES[0]
    _leaderless: int = 0  # times that metadata name none
    _paused: dict[int, float] = field(default_factory=dict)
    _sent: deque[_Sent] = field(default_factory=deque)

    def clock(self) -> float:
        """Seconds."""
        return self.now

    def tell(self, line: str) -> None:
        """For who follows."""
        if self.story is not None:
            self.story.append(f"{self.now - BEGAN:8.3f}  {line}")

    def topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        """As any broker knows it."""
        leader = self._leader
        if self._leaderless:
            self._leaderless, leader = self._leaderless - 1, -1
        return {name: [leader] * self.partitions[name] for name in names if name in self.partitions}

    def topic_settings(self, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Of topics that we may ask about."""
        return {name: {"cleanup.policy": self.policies[name]} for name in names if name in self.policies}

    def close(self) -> None:
        """Nothing is open."""

    def send(self, node: int, request: Any) -> Future:
        """On its way, unless the connection takes no requests now."""
        future = Future()
        if self.now < self._paused.get(node, 0.0) or len(self._sent) >= IN_FLIGHT:
            return future.failure(NodeNotReadyError("paused"))
        trouble = next((it for it in self.troubles if it.step == self.requests), None)
        self.requests += 1
        if trouble is not None:
            self.reached.add(trouble.kind)
            self.tell(f"!! {trouble.kind}({trouble.argument}) at request {trouble.step}")
        self._sent.append(_Sent(node, request, future, self.now + self._takes(trouble), trouble))
        return future

    def poll(self, timeout_s: float, future: Future | None = None) -> None:
        """Until an answer comes, or the time is over. Answers come in the order of requests."""
        self.polls += 1
        if self.polls > MOST_POLLS:
            raise Stuck(f"after {self.now - BEGAN:.0f} s and {self.requests} requests")
        until = self.now + timeout_s
        while self._sent and self._sent[0].due <= until and not (future is not None and future.is_done):
            one = self._sent.popleft()
            self.now = max(self.now, one.due)
            self._deliver(one)
        if future is None or not future.is_done:
            self.now = max(self.now, until)

    def _takes(self, trouble: Trouble | None) -> float:
        return trouble.argument / 16 if trouble is not None and trouble.kind == "slow" else QUICK_S

    def _deliver(self, one: _Sent) -> None:
        kind = one.trouble.kind if one.trouble is not None else ""
        if kind == "leaderless":
            self._leaderless, self._leader = 1 + one.trouble.argument % 5, self._other()  # type: ignore[union-attr]
        elif kind == "move":
            self._leader = self._other()
        if kind == "lose-request":
            one.future.failure(KafkaConnectionError("by the schedule"))
            return
        answer = self.answer(self, one.request, one.trouble if one.node == self._leader else Trouble(0, "moved"))
        if throttle_ms := getattr(answer, "throttle_time_ms", 0):
            until = self.now + throttle_ms / 1000
            self.free_at = max(self.free_at, until)
            self._paused[one.node] = max(self._paused.get(one.node, 0.0), until)
        if kind == "lose-answer":
            one.future.failure(KafkaConnectionError("by the schedule"))
        else:
            one.future.success(answer)

    def _other(self) -> int:
        return NODES[1 - NODES.index(self._leader)]


def places(topic: str, count: int) -> list[TopicPartition]:
    """A topic's partitions."""
    return [TopicPartition(topic, number) for number in range(count)]
