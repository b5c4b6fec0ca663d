"""A partition of a topic as its leader keeps it, in real bytes; and beside it, what is true about it."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from onceward.proof.simulation.reading.kept import KeyValue

NONE: Final = 0
OUT_OF_RANGE: Final = 1


class Row(NamedTuple):
    """A record as its reader should see it."""

    offset: int
    key: bytes | None
    value: bytes | None


class Head(NamedTuple):
    """A batch as who looks at headers should see it."""

    first: int
    last: int
    producer_id: int
    aborts: bool


@dataclass(slots=True)
class Stored:
    """A batch of the log, or messages of an older format. `fate`: whether its transaction, was committed."""

    first: int
    last: int
    data: bytes
    records: dict[int, KeyValue] = field(default_factory=dict)  # none, where it is the broker's own
    producer_id: int = -1
    fate: bool | None = True
    is_old: bool = False
    aborts: bool = False


class Gone(NamedTuple):
    """A transaction that was aborted, as the partition's index has it."""

    producer_id: int
    first: int
    last: int


@dataclass(slots=True)
class Log:
    """One partition. `stable`: where readers of committed records end."""

    stored: list[Stored]
    aborted: list[Gone]
    start: int
    stable: int
    end: int
    is_compacted: bool = False

    def rows(self, start: int, end: int, *, committed: bool = True) -> list[Row]:
        """All that such a reader must get of a range, in order."""
        return [
            Row(offset, *pair)
            for it in self.stored
            if it.fate or not committed
            for offset, pair in it.records.items()
            if start <= offset < end
        ]

    def heads(self, start: int, end: int) -> list[Head]:
        """All batches that touch a range."""
        return [
            Head(it.first, it.last, it.producer_id, it.aborts)
            for it in self.stored
            if it.last >= start and it.first < end and start < end
        ]

    def holes(self, start: int, end: int) -> bool:
        """Whether offsets of a range are missing between batches, or at its end."""
        at = start
        for it in self.stored:
            if it.last >= at and at < end:
                if it.first > at:
                    return True
                at = it.last + 1
        return at < end

    def has_old(self, start: int, end: int) -> bool:
        """Whether some of a range is of an older format; up to the end of the batch that reaches over it."""
        return any(it.is_old for it in self.stored if it.last >= start and it.first < end)

    def first_at(self, offset: int) -> int:
        """The place of the first batch that holds the offset or lies behind it."""
        return next((at for at, it in enumerate(self.stored) if it.last >= offset), len(self.stored))

    def aborted_in(self, first: int, last: int) -> Iterator[Gone]:
        """What a leader tells readers of committed records along with a range."""
        return (it for it in self.aborted if it.last >= first and it.first <= last)
