"""Sends finished record batches to partition leaders: idempotent, in order, up to five requests in flight.

One sender is the only writer of its partitions in an epoch. A batch that was not acknowledged is sent again
with the same bytes and the same sequence; the broker keeps the first of equal sequences (C1).
"""

import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.future import Future
from kafka.protocol.producer import ProduceRequest

from onceward.epoch.outcome import Span, TopicPartition
from onceward.errors import BrokerRefused, BrokerUnreachable, OncewardError, TopicUnusable
from onceward.kafka.codes import Code, Meaning, code
from onceward.kafka.records import stamp
from onceward.kafka.transaction import Identity
from onceward.kafka.wire import Wire

IN_FLIGHT: Final = 5  # the broker remembers the last five batches of a producer and partition
REQUEST_BYTES: Final = 8 << 20  # far below the broker's socket.request.max.bytes of 100 MiB
QUEUE_BYTES: Final = 32 << 20  # what one sender holds in memory before `send` waits
DELIVERY_TIMEOUT_S: Final = 120.0  # Kafka's own default for delivery.timeout.ms
NEW_TOPIC_S: Final = 5.0  # how long a topic may be unknown to a broker that has not heard of it yet
RETRY_S: Final = 0.005  # enrolment and elections answer "not yet" for milliseconds
OUT_OF_ORDER: Final = 45
SEQUENCE_MASK: Final = 0x7FFFFFFF


class IdentityLost(OncewardError):
    """The transaction these records belong to is over: timed out, or a newer driver has taken the pipeline."""


class SequenceBroken(OncewardError):
    """Two writers share a partition: the transaction holds what neither of them meant."""


@dataclass(slots=True, eq=False)
class _Batch:
    payload: bytes
    sequence: int
    count: int
    deadline: float


@dataclass(slots=True)
class _Lane:
    """One partition: what waits, what is on its way, what is known."""

    place: TopicPartition
    waiting: deque[_Batch] = field(default_factory=deque)
    flying: deque[_Batch] = field(default_factory=deque)
    rewound: bool = False  # wait for every answer that is still due, then start again from the oldest
    enrolled: bool = False  # the broker has accepted one batch of this transaction
    not_before: float = 0.0
    next_sequence: int = 0
    span: Span | None = None  # of what is acknowledged
    span_known: bool = True

    def ready(self, now: float) -> bool:
        """May another batch leave now? Until the partition is enrolled, one at a time."""
        if not self.waiting or self.rewound or now < self.not_before:
            return False
        return len(self.flying) < (IN_FLIGHT if self.enrolled else 1)


@dataclass(slots=True)
class _Request:
    node: int
    lanes: list[tuple[_Lane, _Batch]]
    future: Future


class Sender:
    """Writes batches of one transaction (or, without a transactional id, of one idempotent producer)."""

    def __init__(
        self,
        wire: Wire,
        identity: Identity,
        transactional_id: str | None,
        leaders: dict[str, list[int]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`leaders`: of topics, as an earlier sender left them; what turns out to be old is asked for again."""
        self._wire = wire
        self._clock = clock
        self._identity = identity
        self._transactional_id = transactional_id
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._leaders: dict[str, list[int]] = leaders if leaders is not None else {}
        self._requests: list[_Request] = []
        self._queued_bytes = 0

    def send(self, place: TopicPartition, payload: bytes, count: int) -> None:
        """Queue one record batch; waits while too much is queued."""
        lane = self._lanes.setdefault(place, _Lane(place))
        stamped = stamp(
            payload,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            base_sequence=lane.next_sequence,
            transactional=self._transactional_id is not None,
        )
        lane.waiting.append(_Batch(stamped, lane.next_sequence, count, self._clock() + DELIVERY_TIMEOUT_S))
        lane.next_sequence = (lane.next_sequence + count) & SEQUENCE_MASK
        self._queued_bytes += len(stamped)
        while self._queued_bytes > QUEUE_BYTES:
            self._turn()

    def go_on(self, place: TopicPartition, sequence: int) -> None:
        """Another has written to the partition up to here, under the same identity, and all of it is acknowledged."""
        lane = self._lanes.setdefault(place, _Lane(place))
        assert not lane.waiting
        assert not lane.flying
        lane.next_sequence = sequence
        lane.enrolled = lane.enrolled or sequence > 0

    def next_sequence(self, place: TopicPartition) -> int:
        """What the next record for the partition would have."""
        return self._lanes[place].next_sequence

    def flush(self) -> dict[TopicPartition, Span]:
        """Wait until every batch is acknowledged; where each partition's records are, as far as brokers have said."""
        while any(lane.waiting or lane.flying for lane in self._lanes.values()):
            self._turn()
        return {lane.place: lane.span for lane in self._lanes.values() if lane.span is not None and lane.span_known}

    def _turn(self) -> None:
        """Send what may be sent, then read what has come back."""
        while self._dispatch():
            pass
        waits = [request.future for request in self._requests if not request.future.is_done]
        self._wire.poll(RETRY_S if len(waits) != 1 else 0.05, waits[0] if len(waits) == 1 else None)
        done = [request for request in self._requests if request.future.is_done]
        self._requests = [request for request in self._requests if not request.future.is_done]
        for request in done:
            self._settle(request)
        due = {id(lane) for request in self._requests for lane, _ in request.lanes}
        for lane in self._lanes.values():
            lane.rewound = lane.rewound and id(lane) in due

    def _dispatch(self) -> bool:
        """Send at most one request to each leader that has room; whether any left."""
        now, by_node = self._clock(), dict[int, list[_Lane]]()
        for lane in self._lanes.values():
            if lane.ready(now):
                self._check_deadline(lane, now)
                node = self._leader(lane, now)
                if node >= 0:
                    by_node.setdefault(node, []).append(lane)
                else:
                    self._postpone(lane)
        sent = False
        for node, lanes in by_node.items():
            if sum(request.node == node for request in self._requests) < IN_FLIGHT:
                self._send_request(node, lanes)
                sent = True
        return sent

    def _send_request(self, node: int, lanes: list[_Lane]) -> None:
        size, taken = 0, list[tuple[_Lane, _Batch]]()
        for lane in lanes:
            if taken and size + len(lane.waiting[0].payload) > REQUEST_BYTES:
                break
            batch = lane.waiting.popleft()
            lane.flying.append(batch)
            taken.append((lane, batch))
            size += len(batch.payload)
        data = ProduceRequest.TopicProduceData
        topics: dict[str, list[object]] = {}
        for lane, batch in taken:
            entry = data.PartitionProduceData(index=lane.place.partition, records=batch.payload)
            topics.setdefault(lane.place.topic, []).append(entry)
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=20_000,
            topic_data=[data(name=name, partition_data=partitions) for name, partitions in topics.items()],
            max_version=12,  # 12 enrols partitions by itself (KIP-890); 13 wants topic ids
        )
        self._requests.append(_Request(node, taken, self._wire.send(node, request)))

    def _settle(self, request: _Request) -> None:
        if request.future.exception is not None:  # unknown: the same bytes go again, in order
            self._leaders.clear()
            for lane, _ in request.lanes:
                self._rewind(lane)
            return
        answers = {(place, part.index): part for place, part in _parts(request.future.value)}
        for lane, batch in request.lanes:
            answer = answers[lane.place.topic, lane.place.partition]
            found = code(answer.error_code)
            if found.meaning is Meaning.ACCEPTED:
                self._acknowledge(lane, batch, answer.base_offset)
            elif found.number == OUT_OF_ORDER and not lane.rewound and lane.flying[0] is batch:
                raise SequenceBroken(
                    f"{lane.place} expects another sequence than {batch.sequence}, though everything before it is "
                    "acknowledged: somebody else writes to the partition under the same producer id"
                )
            elif found.meaning in (Meaning.RETRY, Meaning.MOVED):
                if found.meaning is Meaning.MOVED:
                    self._leaders.pop(lane.place.topic, None)
                self._rewind(lane)
            else:
                self._fail(lane, batch, found)

    def _acknowledge(self, lane: _Lane, batch: _Batch, base_offset: int) -> None:
        if lane.rewound:  # it goes again all the same, and the broker recognises it
            return
        if lane.flying[0] is not batch:
            # An acknowledgement past a failed batch cannot be: the broker takes sequences in order.
            raise AssertionError(f"{lane.place}: sequence {batch.sequence} acknowledged out of order")
        lane.flying.popleft()
        lane.enrolled = True
        if base_offset < 0:  # a repetition that the broker knows, and no longer where it is
            lane.span_known = False
        lane.span = Span(lane.span.first if lane.span is not None else base_offset, base_offset + batch.count)
        self._queued_bytes -= len(batch.payload)

    def _rewind(self, lane: _Lane) -> None:
        """Put everything unacknowledged back, oldest first."""
        lane.rewound = True
        while lane.flying:
            lane.waiting.appendleft(lane.flying.pop())
        self._postpone(lane)

    def _postpone(self, lane: _Lane) -> None:
        lane.not_before = self._clock() + RETRY_S

    def _leader(self, lane: _Lane, now: float) -> int:
        """The partition's leader, or -1 while it has none. Brokers learn of a new topic one after the other."""
        place = lane.place
        if place.topic not in self._leaders:
            self._leaders.update(self._wire.topics([place.topic]))
        leaders = self._leaders.get(place.topic)
        if leaders is None:
            if now < lane.waiting[0].deadline - DELIVERY_TIMEOUT_S + NEW_TOPIC_S:
                return -1
            raise TopicUnusable(f"topic {place.topic!r} does not exist; make it before the pipeline writes to it")
        if place.partition >= len(leaders):
            raise TopicUnusable(
                f"topic {place.topic!r} has {len(leaders)} partitions, so partition {place.partition} does not exist; "
                "check the rows' partition column, or add partitions to the topic"
            )
        if leaders[place.partition] < 0:
            del self._leaders[place.topic]
            return -1
        return leaders[place.partition]

    def _check_deadline(self, lane: _Lane, now: float) -> None:
        if now > lane.waiting[0].deadline:
            raise BrokerUnreachable(
                f"{lane.place} took no record for {DELIVERY_TIMEOUT_S:.0f} s; check the partition's leader and "
                "min.insync.replicas"
            )

    def _fail(self, lane: _Lane, batch: _Batch, found: Code) -> None:
        if found.meaning is Meaning.IDENTITY_LOST:
            raise IdentityLost(f"{lane.place}: {found.name}, {found.says}")
        raise BrokerRefused(
            f"{lane.place} refused a batch of {batch.count} records ({len(batch.payload)} bytes): "
            f"{found.name}, {found.says}"
        )


def _parts(answer: Any) -> Iterator[tuple[str, Any]]:
    for topic in answer.responses:
        for part in topic.partition_responses:
            yield topic.name, part
