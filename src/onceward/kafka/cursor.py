"""Where a reader of one partition is, and how it gets on: the one way in which Onceward reads records from Kafka.

Only a batch moves a cursor. An answer without records and without an error is how a broker says *later*: the remote
read of a tiered topic took too long, a quota is used up, a new leader knows less for a moment. So silence is waited
for, up to a deadline, and is then an error; it is never taken for the end (docs/decisions/0023).
"""

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka.future import Future

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, PartitionSilent
from onceward.kafka.entries import Entry, entries
from onceward.kafka.fetching import FETCH_BYTES, part_of, request
from onceward.kafka.offsets import READ_COMMITTED
from onceward.kafka.wire import RETRY_S, SETTLE_TIMEOUT_S, Wire

# Brokers count by windows of 11 s, as they come; who announces more than this all the time will never give anything.
MOST_THROTTLED_S: Final = 60.0
MOST_NAP_S: Final = 0.5


class OffsetsMissing(BrokerRefused):
    """Batches that do not follow each other, in a topic that is not known to be compacted."""


class New(NamedTuple):
    """An entry that has moved a cursor."""

    entry: Entry
    since: int  # its records from this offset on are new: a broker may begin earlier than it was asked to
    is_hidden: bool  # of a transaction that was aborted, or the broker's own: not for readers of committed records


@dataclass(slots=True)
class Leaders:
    """Who leads which partition, as of some time ago."""

    wire: Wire
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, list[int]] = field(default_factory=dict)

    def of(self, place: TopicPartition) -> int | None:
        """None while the partition has no leader."""
        if place.topic not in self._known:
            self._known.update(self.wire.topics([place.topic]))
        leaders = self._known.get(place.topic, [])
        if place.partition >= len(leaders):
            raise BrokerRefused(f"{place} is not there: deleted, or made again, since it was looked at")
        if leaders[place.partition] < 0:
            self.forget(place)
            return None
        return leaders[place.partition]

    def forget(self, place: TopicPartition) -> None:
        """Look the leader up again next time."""
        self._known.pop(place.topic, None)


@dataclass(slots=True)
class Cursor:
    """Reads one partition, from an offset on."""

    leaders: Leaders
    place: TopicPartition
    at: int  # everything before is read
    end: int | None = None  # None: whatever comes is read
    isolation: int = READ_COMMITTED
    is_compacted: bool = False  # then offsets may be missing between batches
    patience_s: float = SETTLE_TIMEOUT_S
    max_bytes: int = FETCH_BYTES
    is_caught_up: bool = False  # by the last answer: there was nothing more for this reader
    _asked: Future | None = None

    @property
    def is_done(self) -> bool:
        """The header of a batch has reached the end; nothing else says so."""
        return self.end is not None and self.at >= self.end

    def come(self) -> list[New]:
        """What is next, waited for; empty only where the next batch begins behind the end."""
        before, since, nap_s = self.at, self.leaders.clock(), RETRY_S
        found = self.look()
        while self.at == before:
            self.require_patience(since)
            self.leaders.wire.poll(nap_s)
            nap_s = min(2 * nap_s, MOST_NAP_S)  # whoever is slow is not helped by being asked all the time
            found = self.look()
        return found

    def look(self, wait_ms: int = 0) -> list[New]:
        """What one answer gives, possibly nothing. wait_ms: how long a leader may wait for new records."""
        self.ask(wait_ms)
        part = self._answered(wait_ms)
        if part is None:
            self.is_caught_up = False
            return []
        found = self._new(part)
        bound = part.last_stable_offset if self.isolation == READ_COMMITTED else part.high_watermark
        self.is_caught_up = self.at >= bound
        return found

    def ask(self, wait_ms: int = 0) -> None:
        """Put the question on its way, so that a leader works on it meanwhile; at most one at a time."""
        if self._asked is not None or self.leaders.clock() < self.leaders.wire.free_at:
            return
        if (node := self.leaders.of(self.place)) is not None:
            asked = request(self.place, self.at, isolation=self.isolation, max_bytes=self.max_bytes, wait_ms=wait_ms)
            self._asked = self.leaders.wire.send(node, asked)

    def require_patience(self, since: float) -> None:
        """since: when something was heard last. Time for which a broker has asked is no silence, up to a point."""
        silent_s = self.leaders.clock() - since
        throttled_s = min(max(self.leaders.wire.free_at - since, 0.0), MOST_THROTTLED_S)
        if silent_s <= throttled_s + self.patience_s:
            return
        upto = f"of what lies before {self.end}" if self.end is not None else "though there is more"
        quota = f", {throttled_s:.0f} s of it for a quota" if throttled_s else ""
        raise PartitionSilent(
            f"{self.place}: nothing has come from offset {self.at} on, {upto}, for {silent_s:.0f} s{quota}. What is "
            "likely: the partition has no leader; a tiered topic whose remote storage is slow, refuses, or is over its "
            "quota (remote.fetch.max.wait.ms); a quota for consumers (consumer_byte_rate). Nothing was left out: it "
            "can be asked again"
        )

    def _answered(self, wait_ms: int) -> Any | None:
        """The partition's part of the answer, waited for; None: there is none, or it says not now."""
        asked, self._asked = self._asked, None
        if asked is None:
            return None
        clock = self.leaders.clock
        until = clock() + self.patience_s + wait_ms / 1000
        while not asked.is_done and (left := until - clock()) > 0:
            self.leaders.wire.poll(left, asked)
        part = None
        if asked.succeeded():
            part = part_of(asked.value, self.place, self.at)
        if part is None:
            self.leaders.forget(self.place)
        return part

    def _new(self, part: Any) -> list[New]:
        """What moves the cursor; a broker may give a batch again, or begin before the offset that was asked for."""
        aborted = Aborted(part.aborted_transactions if self.isolation == READ_COMMITTED else None)
        found = []
        for entry in entries(self.place, part.records):
            is_hidden = aborted.hides(entry)
            if entry.last < self.at:
                continue
            if entry.first > self.at and not self.is_compacted:
                raise OffsetsMissing(
                    f"{self.place}: the records from {self.at} to {entry.first - 1} are missing, though the topic's "
                    "cleanup.policy is not known to be compact (it may have been; or we may not ask for it)"
                )
            since, self.at = self.at, entry.last + 1
            if self.end is None or entry.first < self.end:
                found.append(New(entry, since, is_hidden))
            if self.is_done:
                break
        return found


class Aborted:
    """Which batches of an answer belong to transactions that were aborted."""

    def __init__(self, transactions: Iterable[Any] | None) -> None:
        self._ahead = deque(sorted((it.first_offset, it.producer_id) for it in transactions or ()))
        self._open: set[int] = set()

    def hides(self, entry: Entry) -> bool:
        """In the order of their offsets. The broker's own batches, which end transactions, are no records either."""
        while self._ahead and self._ahead[0][0] <= entry.last:
            self._open.add(self._ahead.popleft()[1])
        header = entry.known
        if header is None:  # of a format that knew no transactions
            return False
        if header.is_control:
            self._open.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._open
