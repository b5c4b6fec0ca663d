"""Which transactions are open in a cluster, and which of them hold readers back. Nothing is changed or fenced.

A reader of committed records gets up to a partition's *last stable offset*: where its first open transaction begins.
The coordinators know who opened what and when; each partition's leader knows who wrote there.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.codes import Meaning, code
from onceward.kafka.offsets import LATEST, READ_COMMITTED, READ_UNCOMMITTED
from onceward.kafka.wire import Wire

OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")  # Kafka's words
INTERNAL: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class OpenTransaction(NamedTuple):
    """As its coordinator tells it; times are by the brokers' clocks, in milliseconds since 1970."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    began_ms: int | None  # None: it has no partition yet
    timeout_ms: int
    coordinator: int  # the broker's number
    partitions: tuple[TopicPartition, ...]


class Holder(NamedTuple):
    """Whose transaction a partition's readers wait for.

    Without a transactional id: no coordinator has it as open, so nobody will end it (a hanging transaction).
    """

    producer_id: int
    transactional_id: str | None
    began_ms: int | None
    first_offset: int


class Ends(NamedTuple):
    """Where a partition ends, for all and for readers of committed records; None: its leader did not tell."""

    place: TopicPartition
    end: int | None
    stable: int | None
    holder: Holder | None = None

    @property
    def held_back(self) -> int:
        """How many offsets readers of committed records do not see yet."""
        return max(0, self.end - self.stable) if self.end is not None and self.stable is not None else 0


class Sight(NamedTuple):
    """A cluster at about one moment."""

    transactions: list[OpenTransaction]
    partitions: list[Ends]


def look(wire: Wire, topics: Iterable[str] = ()) -> Sight:
    """Every open transaction, and the ends of these topics and of those that are written to."""
    brokers = [broker.node_id for broker in wire.metadata([]).brokers]
    transactions = sorted(found for broker in brokers for found in _of_coordinator(wire, broker))
    written = {place.topic for it in transactions for place in it.partitions}
    leaders = _leaders(wire, (written | set(topics)) - INTERNAL)
    # The stable ends first: what is committed in between is then shown as held back for a moment, never the reverse.
    stable = _ends(wire, leaders, READ_COMMITTED)
    ends = _ends(wire, leaders, READ_UNCOMMITTED)
    behind = {place: node for place, node in leaders.items() if stable.get(place, 0) < ends.get(place, 0)}
    holders = _holders(wire, behind, {it.producer_id: it for it in transactions})
    return Sight(
        transactions,
        [Ends(place, ends.get(place), stable.get(place), holders.get(place)) for place in sorted(leaders)],
    )


def listed(answer: Any) -> list[str]:
    """The open ones of a ListTransactions answer. A broker that does not know a filter gives all."""
    return sorted(it.transactional_id for it in answer.transaction_states if it.transaction_state in OPEN)


def described(answer: Any, coordinator: int) -> list[OpenTransaction]:
    """Of a DescribeTransactions answer those that are still open: between two questions some have ended."""
    return [
        OpenTransaction(
            transactional_id=it.transactional_id,
            producer_id=it.producer_id,
            producer_epoch=it.producer_epoch,
            state=it.transaction_state,
            began_ms=it.transaction_start_time_ms if it.transaction_start_time_ms > 0 else None,
            timeout_ms=it.transaction_timeout_ms,
            coordinator=coordinator,
            partitions=tuple(
                sorted(TopicPartition(topic.topic, number) for topic in it.topics for number in topic.partitions)
            ),
        )
        for it in answer.transaction_states
        if code(it.error_code).meaning is Meaning.ACCEPTED and it.transaction_state in OPEN
    ]


def holder_of(producers: Iterable[Any], known: Mapping[int, OpenTransaction]) -> Holder | None:
    """Of a partition's producers the one whose open transaction begins first; None: none is open there."""
    writing = [it for it in producers if it.current_txn_start_offset >= 0]
    if not writing:
        return None
    first = min(writing, key=lambda it: it.current_txn_start_offset)
    transaction = known.get(first.producer_id)
    if transaction is not None:
        began = transaction.began_ms
    else:  # nobody knows when it began, but it wrote last then
        began = first.last_timestamp if first.last_timestamp > 0 else None
    name = transaction.transactional_id if transaction is not None else None
    return Holder(first.producer_id, name, began, first.current_txn_start_offset)


def _of_coordinator(wire: Wire, node: int) -> list[OpenTransaction]:
    what = f"the transactions of broker {node}"
    request = ListTransactionsRequest(
        state_filters=list(OPEN), producer_id_filters=[], duration_filter=-1, transactional_id_pattern=None
    )
    names = listed(wire.settle(lambda: _unless_busy(wire.call(node, request), what), what))
    if not names:
        return []
    request = DescribeTransactionsRequest(transactional_ids=names)
    return described(wire.settle(lambda: wire.call(node, request), what), node)


def _unless_busy(answer: Any, what: str) -> Any:
    found = code(answer.error_code)
    if found.meaning in (Meaning.RETRY, Meaning.MOVED):
        return None
    if found.meaning is not Meaning.ACCEPTED:
        raise BrokerRefused(f"{what}: {found.name}, {found.says}")
    return answer


def _leaders(wire: Wire, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Each partition's; -1 while it has none. A topic that does not exist is left out."""
    names = sorted(set(topics))
    found = wire.topics(names) if names else {}
    return {
        TopicPartition(topic, partition): node for topic, nodes in found.items() for partition, node in enumerate(nodes)
    }


def _ends(wire: Wire, leaders: Mapping[TopicPartition, int], isolation: int) -> dict[TopicPartition, int]:
    """One question to each leader; a partition that cannot tell just now is left out."""
    topic = ListOffsetsRequest.ListOffsetsTopic

    def asked(name: str, numbers: list[int]) -> Any:
        return topic(
            name=name,
            partitions=[
                topic.ListOffsetsPartition(partition_index=number, current_leader_epoch=-1, timestamp=LATEST)
                for number in numbers
            ],
        )

    def request(topics: list[Any]) -> object:
        return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, max_version=7)

    return {
        TopicPartition(it.name, part.partition_index): part.offset
        for answer in _of_leaders(wire, leaders, asked, request, "the ends of partitions")
        for it in answer.topics
        for part in it.partitions
        if part.error_code == 0
    }


def _holders(
    wire: Wire, leaders: Mapping[TopicPartition, int], known: Mapping[int, OpenTransaction]
) -> dict[TopicPartition, Holder]:
    topic = DescribeProducersRequest.TopicRequest

    def asked(name: str, numbers: list[int]) -> Any:
        return topic(name=name, partition_indexes=numbers)

    def request(topics: list[Any]) -> object:
        return DescribeProducersRequest(topics=topics)

    found: dict[TopicPartition, Holder] = {}
    for answer in _of_leaders(wire, leaders, asked, request, "the producers of partitions"):
        for it in answer.topics:
            for part in it.partitions:
                holder = holder_of(part.active_producers, known) if part.error_code == 0 else None
                if holder is not None:
                    found[TopicPartition(it.name, part.partition_index)] = holder
    return found


def _of_leaders(
    wire: Wire,
    leaders: Mapping[TopicPartition, int],
    asked: Callable[[str, list[int]], Any],
    request: Callable[[list[Any]], object],
    what: str,
) -> Sequence[Any]:
    """One answer of each leader."""
    answers = []
    for node in sorted({node for node in leaders.values() if node >= 0}):
        mine: dict[str, list[int]] = {}
        for place, leader in sorted(leaders.items()):
            if leader == node:
                mine.setdefault(place.topic, []).append(place.partition)
        question = request([asked(name, numbers) for name, numbers in mine.items()])
        answers.append(wire.settle(partial(wire.call, node, question), what))
    return answers
