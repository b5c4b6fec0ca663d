"""Planted bugs of those who read and write Kafka's partitions. They replace functions of production code alone."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from onceward.epoch.outcome import TopicPartition
from onceward.errors import PartitionSilent
from onceward.kafka import ranges
from onceward.kafka.batch import HEADER, LENGTH_COUNTS_FROM, BatchHeader
from onceward.kafka.cursor import Aborted, Cursor, New
from onceward.kafka.decoding import Records, decode
from onceward.kafka.entries import Entry, entries
from onceward.kafka.offsets import READ_COMMITTED
from onceward.kafka.ranges import Range, RangeReader
from onceward.kafka.sender import Sender
from onceward.proof.simulation.patching import Patches
from onceward.sinks.kafka.copying import Copy

MODULE: Final = "onceward.kafka.cursor"
_CURSOR: Final = f"{MODULE}:Cursor"
_new: Final[Callable[[Cursor, Any], list[New]]] = Cursor._new  # noqa: SLF001 - a bug looks inside
_within: Final = ranges._within  # noqa: SLF001 - likewise


def silence_is_the_end(self: Cursor, part: Any) -> list[New]:
    """An empty answer from a leader that is past the end: nothing is there, then."""
    found = _new(self, part)
    bound = part.last_stable_offset if self.isolation == READ_COMMITTED else part.high_watermark
    if not part.records and self.end is not None and bound >= self.end:
        self.at = self.end
    return found


def gaps_are_nothing(self: Cursor, part: Any) -> list[New]:
    """Every topic is taken for a compacted one."""
    self.is_compacted = True
    return _new(self, part)


def repeats_are_new(self: Cursor, part: Any) -> list[New]:
    """A batch that lies before the cursor is handed on like any other."""
    before = self.at
    again = [it for it in entries(self.place, part.records) if it.last < before]
    aborted = Aborted(part.aborted_transactions if self.isolation == READ_COMMITTED else None)
    return [*(New(it, it.first, aborted.hides(it)) for it in again), *_new(self, part)]


def old_news_are_none(self: Cursor, part: Any) -> list[New]:
    """The end of an aborted transaction is passed over where it lies before the cursor."""
    aborted = Aborted(part.aborted_transactions if self.isolation == READ_COMMITTED else None)
    hidden = {it.first: aborted.hides(it) for it in entries(self.place, part.records) if it.last >= self.at}
    return [new._replace(is_hidden=hidden[new.entry.first]) for new in _new(self, part)]


def one_format(place: TopicPartition, records: Any) -> Iterator[Entry]:
    """The fields of v2 are read from whatever is there."""
    data, at = memoryview(records or b""), 0
    while at + HEADER.size <= len(data):
        header = BatchHeader.of(data[at : at + HEADER.size])
        end = at + LENGTH_COUNTS_FROM + header.length
        if end > len(data):
            return
        yield Entry(place, header.base_offset, header.last_offset, data[at:end], header)
        at = end


def first_topic(answer: Any, *_: Any) -> Any:
    """An answer is about the partition that was asked for, and has a topic in any case."""
    return answer.responses[0].partitions[0]


def quotas_are_silence(self: Cursor, since: float) -> None:
    """Time for which a broker asks counts as if nothing had been said."""
    if self.leaders.clock() - since > self.patience_s:
        raise PartitionSilent(f"{self.place}: nothing has come")


def empty_batches_too(wanted: Range, found: list[New]) -> Iterator[Records]:
    """A batch that compaction has emptied is handed on like any other."""
    for new in found:
        if not new.entry.header.record_count and not new.is_hidden:
            yield decode(b"", 0)
        yield from _within(wanted, [new])


def lost_answers_are_good(self: Sender, request: Any) -> None:
    """What was sent is taken for written, whether or not its answer came."""
    if request.future.exception is None:
        _settle(self, request)
        return
    for lane, batch in request.lanes:
        lane.flying.remove(batch)


_settle: Final[Callable[[Sender, Any], None]] = Sender._settle  # noqa: SLF001 - likewise


def turns_begin_anew(self: Sender, place: TopicPartition, sequence: int) -> None:  # noqa: ARG001 - that is the bug
    """A task does not go on with the numbers of the one before it."""
    _go_on(self, place, 0)


_go_on: Final = Sender.go_on


def all_is_small(self: Copy, reader: RangeReader, most_bytes: int) -> pa.Table:  # noqa: ARG001 - that is the bug
    """The driver holds whatever an epoch has."""
    return pa.Table.from_batches(list(self.read(reader, range(len(self.ranges)))), self.schema)


_SENDER, _RANGES, _COPY = (
    "onceward.kafka.sender:Sender",
    "onceward.kafka.ranges",
    "onceward.sinks.kafka.copying:Copy",
)

BUGS: Final[Mapping[str, tuple[str, Patches]]] = {
    "silence-is-the-end": ("an empty answer ends a range", {f"{_CURSOR}._new": silence_is_the_end}),
    "gaps-passed-over": ("batches that are missing are not missed", {f"{_CURSOR}._new": gaps_are_nothing}),
    "batch-read-twice": ("what a broker gives again is read again", {f"{_CURSOR}._new": repeats_are_new}),
    "abort-never-ends": (
        "the end of an aborted transaction is passed over", {f"{_CURSOR}._new": old_news_are_none}
    ),
    "old-format-as-new": ("older formats are read with v2's fields", {f"{MODULE}:entries": one_format}),
    "first-topic-taken": ("a throttled answer is taken for a full one", {f"{MODULE}:part_of": first_topic}),
    "quota-is-silence": (
        "a throttle counts as silence", {f"{_CURSOR}.require_patience": quotas_are_silence}
    ),
    "emptied-batch-called": (
        "a batch without records is handed on", {f"{_RANGES}:_within": empty_batches_too}
    ),
    "lost-answer-is-good": (
        "a batch whose answer is lost is taken for written",
        {f"{_SENDER}._settle": lost_answers_are_good},
    ),
    "turn-begins-anew": (
        "a task starts its sequence at zero", {f"{_SENDER}.go_on": turns_begin_anew}
    ),
    "all-is-small": ("the driver collects without a bound", {f"{_COPY}.table": all_is_small}),
}  # fmt: skip
