"""Consumer groups as a person looks at them: which there are, how far each is, and which of them are pipelines."""

from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.admin import ListGroupsRequest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka import marker as markers
from onceward.kafka.codes import Meaning, code
from onceward.kafka.marker import Marker
from onceward.kafka.offsets import LATEST, offsets
from onceward.kafka.requests import Requests
from onceward.kafka.wire import Wire


class Group(NamedTuple):
    """One group in a list. A pipeline's group has no members: it is Empty in Kafka's words, running or not."""

    name: str
    state: str


class Position(NamedTuple):
    """How far a group is in one partition."""

    place: TopicPartition
    offset: int
    end: int | None  # None: the topic is gone
    marker: Marker | None  # the pipeline's last committed epoch, if a pipeline of ours wrote this

    @property
    def lag(self) -> int | None:
        return None if self.end is None else max(self.end - self.offset, 0)


def listed(wire: Wire) -> list[Group]:
    """Each broker tells of those that it coordinates."""

    def groups(node: int) -> Any:
        answer = wire.call(node, ListGroupsRequest(states_filter=[], types_filter=[]))
        found = code(answer.error_code)
        if found.meaning in (Meaning.RETRY, Meaning.MOVED):
            return None
        if found.meaning is not Meaning.ACCEPTED:
            raise BrokerRefused(f"the groups of broker {node}: {found.name}, {found.says}")
        return answer.groups

    nodes = [broker.node_id for broker in wire.metadata([]).brokers]
    answers = [wire.settle(partial(groups, node), f"the groups of broker {node}") for node in nodes]
    return sorted(Group(it.group_id, it.group_state) for answer in answers for it in answer)


def positions(wire: Wire, group: str) -> list[Position]:
    """Where the group stands in every partition that it has committed a position for."""
    requests = Requests(wire, group)

    def ask() -> list[tuple[TopicPartition, int, str]] | None:
        found, held = requests.held(stable=False)
        if found.meaning is Meaning.REFUSED:
            raise BrokerRefused(f"group {group!r}: {found.name}, {found.says}")
        return held

    held = wire.settle(ask, f"the offsets of group {group!r}")
    ends = offsets(wire, {place.topic for place, _, _ in held}, LATEST)
    return sorted(Position(place, offset, ends.get(place), markers.parse(text)) for place, offset, text in held)
