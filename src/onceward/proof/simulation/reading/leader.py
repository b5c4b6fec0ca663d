"""What partitions' leaders answer to a fetch, whatever befalls them; and since when somebody has had nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.consumer import FetchResponse

from onceward.epoch.outcome import TopicPartition
from onceward.kafka.offsets import READ_COMMITTED
from onceward.proof.simulation.reading.log import NONE, OUT_OF_RANGE, Log, Stored
from onceward.proof.simulation.reading.schedule import Trouble
from onceward.proof.simulation.reading.wire import CODES, MOVED, Net

SILENCES_S: Final = (0.3, 2.0, 4.0, 9.0, 40.0, 100.0)


@dataclass(slots=True)
class Leaders:
    """Of all partitions. What they do to a reader is noted: it excuses some errors."""

    logs: Mapping[TopicPartition, Log]
    useful: dict[TopicPartition, float] = field(default_factory=dict)  # when something new was given last
    given: dict[TopicPartition, int] = field(default_factory=dict)  # up to which offset
    holes: set[TopicPartition] = field(default_factory=set)  # where a batch was left out
    _less: dict[TopicPartition, int] = field(default_factory=dict)  # answers of a leader that knows less

    def fetch(self, net: Net, request: Any, trouble: Trouble | None) -> FetchResponse:
        """A request is about one partition."""
        (topic,) = request.topics
        (asked,) = topic.partitions
        place = TopicPartition(topic.topic, asked.partition)
        kind, argument = (trouble.kind, trouble.argument) if trouble is not None else ("", 0)
        if kind == "throttle":
            return FetchResponse(throttle_time_ms=1 + 250 * argument, error_code=0, session_id=0, responses=[])
        if kind == "error" and argument % 4 == 0:  # about the whole request
            return FetchResponse(throttle_time_ms=0, error_code=7, session_id=0, responses=[])
        self._befalls(net, place, kind, argument)
        log = self.logs[place]
        if code := self._code(log, asked.fetch_offset, kind, argument):
            return _answer(place, log, code=code)
        if left := self._less.get(place, 0):
            self._less[place] = left - 1
            return _answer(place, log, bound=asked.fetch_offset)
        if kind == "empty" or net.now < net.silent_until:
            return _answer(place, log)
        return self._records(net, place, asked, request.isolation_level, kind, argument)

    def _befalls(self, net: Net, place: TopicPartition, kind: str, argument: int) -> None:
        """What lasts longer than one answer."""
        log = self.logs[place]
        if kind == "silence":
            net.silent_until = net.now + SILENCES_S[argument % len(SILENCES_S)]
        elif kind == "start":
            log.start = min(log.start + argument, log.stable)
        elif kind == "less":
            self._less[place] = 1 + argument % 6

    def _code(self, log: Log, offset: int, kind: str, argument: int) -> int:
        if kind in ("moved", "error"):
            return MOVED if kind == "moved" else CODES[argument % len(CODES)]
        return NONE if log.start <= offset <= log.end else OUT_OF_RANGE

    def _records(self, net: Net, place: TopicPartition, asked: Any, isolation: int, kind: str, argument: int) -> Any:
        log, at = self.logs[place], asked.fetch_offset
        bound = log.stable if isolation == READ_COMMITTED else log.end
        first = log.first_at(at)
        if kind == "again":
            first = max(first - argument % 3, log.first_at(log.start))
        elif kind == "hole" and not log.is_compacted:
            first += 1
            self.holes.add(place)
        chosen = [it for it in log.stored[first:] if it.first < bound]
        if kind == "again":
            chosen = [copy for number, it in enumerate(chosen) for copy in [it] * (1 + (number == argument // 3 % 4))]
        data, whole = _filled(chosen, asked.partition_max_bytes, argument if kind == "cut" else None)
        if whole and whole[-1].last >= max(at, self.given.get(place, at)):
            self.given[place] = whole[-1].last + 1
            self.useful[place] = net.now
        aborted = log.aborted_in(min(at, whole[0].first), whole[-1].last) if whole else ()
        net.tell(f"{place} from {at}: batches {[it.first for it in whole]}")
        return _answer(place, log, records=data, aborted=aborted if isolation == READ_COMMITTED else None)


def _filled(chosen: list[Stored], most: int, cut: int | None) -> tuple[bytes, list[Stored]]:
    """As many bytes as were asked for, and one whole batch at least; or cut off within one of the first."""
    data = b"".join(it.data for it in chosen)
    if not chosen:
        return data, []
    size = max(most, len(chosen[0].data))
    if cut is not None:
        size = min(size, 1 + cut * len(data) // 64)
    data, whole, taken = data[:size], [], 0
    for it in chosen:
        taken += len(it.data)
        if taken > size:
            break
        whole.append(it)
    return data, whole


def _answer(
    place: TopicPartition,
    log: Log,
    *,
    code: int = NONE,
    records: bytes = b"",
    aborted: Any = (),
    bound: int | None = None,
) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    gone = None
    if aborted is not None:
        gone = [part.AbortedTransaction(producer_id=it.producer_id, first_offset=it.first) for it in aborted]
    told = part(
        partition_index=place.partition,
        error_code=code,
        high_watermark=log.end if bound is None else bound,
        last_stable_offset=log.stable if bound is None else bound,
        log_start_offset=log.start,
        aborted_transactions=gone,
        preferred_read_replica=-1,
        records=records,
    )
    return FetchResponse(
        throttle_time_ms=0, error_code=0, session_id=0, responses=[topic(topic=place.topic, partitions=[told])]
    )
