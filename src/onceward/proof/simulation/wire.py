"""The network between drivers and the broker in memory: requests and answers that get lost, late or doubled.

Stands in for `onceward.kafka.wire.Wire`, so that the production `Transactor` runs on it with the real request classes.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.wire import AnswerLost
from onceward.proof.simulation.broker import Broker, Place
from onceward.proof.simulation.world import World

T = TypeVar("T")


@dataclass(slots=True)
class Answer:
    """Whatever a response of Kafka's protocol has that somebody reads."""

    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    name: str = ""
    partition_index: int = 0
    committed_offset: int = -1
    metadata: str | None = ""
    topics: Sequence["Answer"] = ()
    partitions: Sequence["Answer"] = ()
    groups: Sequence["Answer"] = ()


class Produce(NamedTuple):
    """What a record batch on its way says."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    place: Place
    sequence: int
    rows: tuple[Any, ...]


class MemoryWire:
    """One driver's connections to the broker in memory."""

    def __init__(self, world: World, broker: Broker) -> None:
        self._world, self._broker = world, broker

    def call_coordinator(self, key: str, kind: int, request: Callable[[], Any]) -> Any:  # noqa: ARG002 - one broker
        """Send to the coordinator."""
        made = request()
        return self.exchange(type(made).__name__, lambda: carry_out(self._broker, made), made)

    def any_node(self) -> int:
        """There is one."""
        return 0

    def call(self, node: int, request: Any) -> Any:  # noqa: ARG002 - one broker
        """Send to a broker."""
        return self.exchange(type(request).__name__, lambda: carry_out(self._broker, request), request)

    def settle(self, attempt: Callable[[], T | None], what: str) -> T:  # noqa: ARG002 - it comes at last
        """Asked until there is an answer."""
        while True:
            with suppress(AnswerLost):
                if (answer := attempt()) is not None:
                    return answer
            self._world.sleep(0.02)

    def topics(self, names: Iterable[str]) -> dict[str, list[int]]:
        """Every topic is here."""
        return {name: [0, 0] for name in names}

    def topic_ids(self, names: Iterable[str]) -> dict[str, str]:
        """None is ever made again."""
        return {name: f"id-of-{name}" for name in names}

    def ends(self, names: Iterable[str]) -> dict[TopicPartition, int]:
        """Asked until it is answered, as the real one does."""
        wanted = set(names)

        def ask() -> dict[TopicPartition, int]:
            found: dict[TopicPartition, int] = self.exchange("ListOffsets", lambda: self._broker.ends(wanted), None)
            return found

        return self.settle(ask, "ends") if wanted else {}

    def forget_coordinator(self, key: str, kind: int) -> None:
        """There is only one."""

    def produce(
        self, name: str | None, identity: tuple[int, int], place: Place, sequence: int, rows: list[Any]
    ) -> tuple[int, int]:
        """A record batch to its partition's leader."""
        act = self._broker.produce
        what = f"Produce {place} {identity} from {sequence}" if self._world.story is not None else "Produce"
        said = Produce(name, *identity, place, sequence, tuple(rows))
        return self.exchange(what, lambda: act(name, identity, place, sequence, len(rows), rows), said)  # type: ignore[no-any-return]

    def exchange(self, what: str, effect: Callable[[], Any], said: object) -> Any:
        """A request and its answer, each a step, each with its own accidents. `said`: what the request says."""
        world = self._world
        ends = what == "EndTxnRequest"
        kind, steps = world.enter_network("send-end" if ends else "send", what)
        if kind:
            world.tell(f"!! {kind} of {what}")
        if kind == "lose-request":
            raise AnswerLost(f"{what} was lost")
        if kind == "delay":
            world.later(steps, effect, what, said)
            raise AnswerLost(f"{what} is late")
        answer = effect()
        world.heard(said, answer)
        if kind == "duplicate":
            world.later(steps, effect, f"{what}, again")
        world.step("answer-end" if ends else "answer", what)
        if kind == "lose-answer":
            raise AnswerLost(f"the answer to {what} was lost")
        return answer


def carry_out(broker: Broker, request: Any) -> Answer:
    """A request of Kafka's protocol, answered by the broker in memory."""
    return _HANDLERS[type(request).__name__](broker, request)


def _init(broker: Broker, request: Any) -> Answer:
    if request.transactional_id is None:
        return Answer(*broker.idempotent())
    expected = (request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
    return Answer(*broker.init(request.transactional_id, expected))


def _end(broker: Broker, request: Any) -> Answer:
    identity = (request.producer_id, request.producer_epoch)
    return Answer(*broker.end(request.transactional_id, identity, commit=request.committed))


def _mark(broker: Broker, request: Any) -> Answer:
    identity = (request.producer_id, request.producer_epoch)
    number = broker.mark(request.transactional_id, request.group_id, identity, _offsets(request))
    return Answer(topics=[Answer(name=request.group_id, partitions=[Answer(number)])])


def _commit(broker: Broker, request: Any) -> Answer:
    number = broker.commit(request.group_id, _offsets(request))
    return Answer(topics=[Answer(name=request.group_id, partitions=[Answer(number)])])


def _offsets(request: Any) -> dict[Place, tuple[int, str]]:
    return {
        (topic.name, part.partition_index): (part.committed_offset, part.committed_metadata)
        for topic in request.topics
        for part in topic.partitions
    }


def _fetch(broker: Broker, request: Any) -> Answer:
    found = broker.offsets(request.groups[0].group_id, stable=request.require_stable)
    topics: dict[str, list[Answer]] = {}
    for (topic, place), (number, offset, metadata) in found.items():
        part = Answer(number, partition_index=place, committed_offset=offset, metadata=metadata)
        topics.setdefault(topic, []).append(part)
    return Answer(groups=[Answer(topics=[Answer(name=topic, partitions=parts) for topic, parts in topics.items()])])


_HANDLERS: dict[str, Callable[[Broker, Any], Answer]] = {
    "InitProducerIdRequest": _init,
    "EndTxnRequest": _end,
    "TxnOffsetCommitRequest": _mark,
    "OffsetFetchRequest": _fetch,
    "OffsetCommitRequest": _commit,
}
