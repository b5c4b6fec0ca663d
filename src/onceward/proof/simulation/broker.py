"""A Kafka broker in memory: transactions, groups and partitions, as transaction.version 2 has them.

Only what Onceward relies on, and checked against a real broker: `tests/proof/test_conversations.py` has both answer
the same requests. Single-threaded; a request is carried out at once, its end markers are written a moment later.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.epoch.outcome import TopicPartition
from onceward.proof.simulation.partition import INVALID_EPOCH, NONE, PartitionLog

INVALID_STATE: Final = 48
INVALID_MAPPING: Final = 49
CONCURRENT: Final = 51
UNSTABLE: Final = 88
FENCED: Final = 90

EMPTY, ONGOING, COMMITTING, ABORTING, COMMITTED, ABORTED = (
    "empty", "ongoing", "committing", "aborting", "committed", "aborted",
)  # fmt: skip
Place = tuple[str, int]


@dataclass(slots=True)
class Transaction:
    """A transactional id: who holds it, and what its current transaction has touched."""

    producer_id: int
    producer_epoch: int
    last_epoch: int = -1  # the one before, whose holder may repeat a request
    previous_id: int = -1
    state: str = EMPTY
    places: dict[Place | str, None] = field(default_factory=dict)  # partitions and groups, in the order they came
    unmarked: list[Place | str] = field(default_factory=list)
    following: tuple[int, int] = (-1, -1)  # the identity once the end markers are written

    def known(self) -> tuple[object, ...]:
        """What later answers depend on; places and the identity to follow are those of a transaction under way."""
        who = (self.producer_id, self.producer_epoch, self.last_epoch, self.previous_id, self.state)
        if self.state in (ONGOING, COMMITTING, ABORTING):
            return (*who, list(self.places), self.unmarked, self.following)
        return who


@dataclass(slots=True)
class Group:
    """A consumer group's offsets: committed ones, and those of transactions that are open."""

    committed: dict[Place, tuple[int, str]] = field(default_factory=dict)
    pending: dict[int, dict[Place, tuple[int, str]]] = field(default_factory=dict)  # by producer id
    epochs: dict[int, int] = field(default_factory=dict)


class Broker:
    """All of a cluster."""

    def __init__(self, max_epoch: int = 32_767, first_id: int = 1000) -> None:
        self.max_epoch = max_epoch
        self.logs: dict[Place, PartitionLog] = {}
        self.transactions: dict[str, Transaction] = {}
        self.groups: dict[str, Group] = {}
        self.held = False  # slow to write end markers
        self._next_id = first_id

    def create(self, topic: str, partitions: int) -> None:
        for number in range(partitions):
            self.logs[topic, number] = PartitionLog()

    # The transaction coordinator.

    def init(self, name: str, expected: tuple[int, int] | None = None) -> tuple[int, int, int]:  # noqa: PLR0911
        """InitProducerId: error code, producer id, producer epoch."""
        self.settle()
        held = self.transactions.get(name)
        if held is None:
            held = self.transactions[name] = Transaction(self._new_id(), 0)
            return NONE, held.producer_id, 0
        if expected is not None and not self._may_ask(held, expected):
            return FENCED, -1, -1
        if held.state in (COMMITTING, ABORTING):
            return CONCURRENT, -1, -1
        if held.state == ONGOING:
            # Seen on a real broker: the open transaction is aborted before the asker's epoch is even looked at, so
            # that a zombie that asks after its old identity costs its successor a try.
            self._fence(held)
            return CONCURRENT, -1, -1
        if expected is not None and expected[1] == held.last_epoch and expected[1] != held.producer_epoch:
            return NONE, held.producer_id, held.producer_epoch  # a repetition: nothing is raised
        if expected is not None and expected[1] != held.producer_epoch:
            return FENCED, -1, -1
        before = held.producer_epoch if expected is not None else -1
        if self._exhausted(held.producer_epoch):
            held.previous_id, held.producer_id, held.producer_epoch = held.producer_id, self._new_id(), 0
        else:
            held.producer_epoch += 1
        held.last_epoch, held.state = before, EMPTY
        return NONE, held.producer_id, held.producer_epoch

    def idempotent(self) -> tuple[int, int, int]:
        """InitProducerId without a transactional id: a producer id of its own."""
        return NONE, self._new_id(), 0

    def enrol(self, name: str, identity: tuple[int, int], place: Place | str) -> int:
        """A partition or group joins the transaction with its first record."""
        held = self.transactions.get(name)
        if held is None or held.producer_id != identity[0]:
            return INVALID_MAPPING
        if held.producer_epoch != identity[1]:
            return INVALID_EPOCH
        if held.state in (COMMITTING, ABORTING):
            return CONCURRENT
        if held.state != ONGOING:
            held.state = ONGOING
            held.places = {}
        held.places[place] = None
        return NONE

    def end(self, name: str, identity: tuple[int, int], *, commit: bool) -> tuple[int, int, int]:  # noqa: PLR0911
        """EndTxn: error code and the identity of the next transaction. The end markers follow."""
        self.settle()
        held = self.transactions.get(name)
        if held is None:
            return INVALID_MAPPING, -1, -1
        repeated = held.state != ONGOING and self._repeats_end(held, identity)
        if held.producer_id != identity[0] and not repeated:
            return INVALID_MAPPING, -1, -1
        if held.producer_epoch != identity[1] and not repeated:
            return FENCED, -1, -1
        if held.state in (COMMITTING, ABORTING):
            return (CONCURRENT if commit == (held.state == COMMITTING) else INVALID_STATE), -1, -1
        if repeated:
            if held.state == (COMMITTED if commit else ABORTED):
                return NONE, held.producer_id, held.producer_epoch
            return INVALID_STATE, -1, -1
        if held.state != ONGOING and commit:
            return INVALID_STATE, -1, -1
        if held.state != ONGOING:
            held.places = {}
        self._prepare(held, commit=commit)
        return NONE, *held.following

    def time_out(self, name: str) -> bool:
        """The transaction was open for too long."""
        held = self.transactions.get(name)
        if held is None or held.state != ONGOING:
            return False
        self._fence(held)
        return True

    # Partitions and groups.

    def produce(
        self, name: str | None, identity: tuple[int, int], place: Place, sequence: int, count: int, rows: Any
    ) -> tuple[int, int]:
        """Produce: error code and offset. Without a transactional id the records are visible at once."""
        self.settle()
        log = self.logs[place]
        if name is None:
            return log.append(*identity, sequence, count, rows, at_once=True)
        if not log.has_open(*identity) and (refused := self.enrol(name, identity, place)):
            return refused, -1
        return log.append(*identity, sequence, count, rows)

    def ends(self, topics: Iterable[str]) -> dict[TopicPartition, int]:
        """ListOffsets: the offset after the last record of every partition."""
        self.settle()
        return {TopicPartition(*place): log.end for place, log in self.logs.items() if place[0] in topics}

    def mark(self, name: str, group: str, identity: tuple[int, int], offsets: dict[Place, tuple[int, str]]) -> int:
        """TxnOffsetCommit: offsets that count if the transaction commits."""
        self.settle()
        if refused := self.enrol(name, identity, group):
            return refused
        found = self.groups.setdefault(group, Group())
        if identity[1] < found.epochs.get(identity[0], -1):
            return INVALID_EPOCH
        found.epochs[identity[0]] = identity[1]
        found.pending.setdefault(identity[0], {}).update(offsets)
        return NONE

    def commit(self, group: str, offsets: dict[Place, tuple[int, str]]) -> int:
        """OffsetCommit: without a transaction."""
        self.groups.setdefault(group, Group()).committed.update(offsets)
        return NONE

    def offsets(self, group: str, *, stable: bool = True) -> dict[Place, tuple[int, int, str]]:
        """OffsetFetch: error code, offset and metadata of each place that has a committed offset."""
        self.settle()
        found = self.groups.get(group, Group())
        waiting = {place for offsets in found.pending.values() for place in offsets} if stable else set[Place]()
        return {
            place: (UNSTABLE, -1, "") if place in waiting else (NONE, *value)
            for place, value in found.committed.items()
        }

    def expire(self, group: str, *, overwritten: bool = False) -> bool:
        """The group's offsets are forgotten, or another consumer commits its own over them."""
        found = self.groups.get(group)
        if found is None or not found.committed:
            return False
        found.committed = {place: (offset, "") for place, (offset, _) in found.committed.items()} if overwritten else {}
        return True

    # End markers.

    def settle(self) -> None:
        """Write the end markers that are due, unless the broker is slow just now."""
        for held in self.transactions.values():
            if held.unmarked and not self.held:
                self._write_markers(held)

    @property
    def settled(self) -> bool:
        """Nothing is on its way."""
        return not any(held.unmarked for held in self.transactions.values())

    def state(self) -> object:
        """All that its later answers and its readers depend on: two brokers with the same go on alike.

        What was aborted, and at which offset a batch stands, nobody asks for.
        """
        logs = [log.state() for log in self.logs.values()]
        holders = [(name, *held.known()) for name, held in self.transactions.items()]
        groups = [(group.committed, group.pending, group.epochs) for group in self.groups.values()]
        return logs, holders, groups, self.held, self._next_id

    def _prepare(self, held: Transaction, *, commit: bool) -> None:
        """From here on the transaction's end is certain. Its markers carry the next producer epoch (KIP-890)."""
        held.last_epoch = held.producer_epoch
        held.state = COMMITTING if commit else ABORTING
        if self._exhausted(held.producer_epoch):
            held.following = (self._new_id(), 0)
        else:
            held.following = (held.producer_id, held.producer_epoch + 1)
        held.producer_epoch += 1
        self._mark_places(held)

    def _fence(self, held: Transaction) -> None:
        """Abort on somebody's behalf: the producer epoch rises, and its holder is refused."""
        held.last_epoch = held.producer_epoch
        held.producer_epoch += 1
        held.state = ABORTING
        held.following = (held.producer_id, held.producer_epoch)
        self._mark_places(held)

    def _mark_places(self, held: Transaction) -> None:
        held.unmarked = [*held.places]
        if not held.unmarked:
            self._complete(held)
        elif self.held:
            self._write_marker(held, held.unmarked.pop(0))
            if not held.unmarked:
                self._complete(held)

    def _write_markers(self, held: Transaction) -> None:
        while held.unmarked:
            self._write_marker(held, held.unmarked.pop(0))
        self._complete(held)

    def _write_marker(self, held: Transaction, place: Place | str) -> None:
        commit = held.state == COMMITTING
        if isinstance(place, tuple):
            self.logs[place].finish(held.producer_id, held.producer_epoch, commit=commit)
            return
        group = self.groups.setdefault(place, Group())
        offsets = group.pending.pop(held.producer_id, {})
        group.epochs[held.producer_id] = held.producer_epoch
        if commit:
            group.committed.update(offsets)

    def _complete(self, held: Transaction) -> None:
        held.state = COMMITTED if held.state == COMMITTING else ABORTED
        if held.following[0] != held.producer_id:
            held.previous_id = held.producer_id
        held.producer_id, held.producer_epoch = held.following

    def _may_ask(self, held: Transaction, expected: tuple[int, int]) -> bool:
        rolled = expected[0] == held.previous_id and self._exhausted(expected[1])
        return expected[0] == held.producer_id or rolled

    def _repeats_end(self, held: Transaction, identity: tuple[int, int]) -> bool:
        if held.previous_id == identity[0] and self._exhausted(identity[1]) and held.producer_epoch == 0:
            return True
        return held.producer_id == identity[0] and held.producer_epoch == identity[1] + 1

    def _exhausted(self, producer_epoch: int) -> bool:
        return producer_epoch >= self.max_epoch - 1

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1
