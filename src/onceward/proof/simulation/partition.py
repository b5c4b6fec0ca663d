"""One partition of a topic, as its leader keeps it: batches, end markers, and what it remembers of each producer."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

NONE: Final = 0
OUT_OF_ORDER: Final = 45
INVALID_EPOCH: Final = 47
REMEMBERED: Final = 5  # batches of a producer whose repetition is recognised


@dataclass(slots=True)
class Stored:
    """An entry of the log. `fate` of data: None while its transaction is open, then whether it was committed."""

    kind: str  # data, commit, abort
    offset: int
    producer_id: int
    producer_epoch: int
    sequence: int = -1
    count: int = 1
    rows: Any = ()
    fate: bool | None = None


@dataclass(slots=True)
class Known:
    """A producer, as the partition remembers it."""

    epoch: int
    last: int = -1
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    open_from: int | None = None  # the first offset of its open transaction


class PartitionLog:
    """The log of one partition."""

    def __init__(self) -> None:
        self.batches: list[Stored] = []
        self.end = 0  # the high watermark: there is one replica
        self.producers: dict[int, Known] = {}

    def has_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this identity's transaction has records here already."""
        known = self.producers.get(producer_id)
        return known is not None and known.epoch == producer_epoch and known.open_from is not None

    def append(
        self, producer_id: int, producer_epoch: int, sequence: int, count: int, rows: Any, *, at_once: bool = False
    ) -> tuple[int, int]:
        """Error code and offset. A repetition of one of the last batches is answered like the first, and not kept.

        at_once: without a transaction.
        """
        known = self.producers.get(producer_id)
        if known is not None and producer_epoch < known.epoch:
            return INVALID_EPOCH, -1
        if known is None or producer_epoch > known.epoch:
            if sequence != 0:
                return OUT_OF_ORDER, -1
            known = self.producers[producer_id] = Known(producer_epoch)
        else:
            for first, last, offset in known.batches:
                if (first, last) == (sequence, sequence + count - 1):
                    return NONE, offset
            if sequence != known.last + 1:
                return OUT_OF_ORDER, -1
        offset = self.end
        self.batches.append(
            Stored("data", offset, producer_id, producer_epoch, sequence, count, rows, fate=True if at_once else None)
        )
        self.end += count
        known.last = sequence + count - 1
        known.batches.append((sequence, known.last, offset))
        if known.open_from is None and not at_once:
            known.open_from = offset
        return NONE, offset

    def finish(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Write an end marker; from here on an older producer epoch is refused."""
        known = self.producers.get(producer_id)
        if known is None or known.epoch < producer_epoch:
            begun = known.open_from if known is not None else None
            known = self.producers[producer_id] = Known(producer_epoch)
            known.open_from = begun
        if known.open_from is not None:
            for batch in self.batches:
                if batch.offset >= known.open_from and batch.producer_id == producer_id and batch.fate is None:
                    batch.fate = commit
        known.open_from = None
        kind = "commit" if commit else "abort"
        self.batches.append(Stored(kind, self.end, producer_id, producer_epoch, fate=commit))
        self.end += 1

    def state(self) -> object:
        """What later answers and readers depend on: records that are visible or undecided, and the producers."""
        kept = [(b.rows, b.fate) for b in self.batches if b.kind == "data" and b.fate is not False]
        producers = [
            (number, known.epoch, known.last, [which[:2] for which in known.batches], known.open_from is None)
            for number, known in self.producers.items()
        ]
        return kept, producers

    @property
    def stable(self) -> int:
        """The last stable offset: where the first open transaction begins."""
        begun = [known.open_from for known in self.producers.values() if known.open_from is not None]
        return min(begun, default=self.end)

    def visible(self, *, committed: bool = True) -> list[Stored]:
        """What a reader gets, batch by batch."""
        if not committed:
            return [batch for batch in self.batches if batch.kind == "data"]
        stable = self.stable
        return [batch for batch in self.batches if batch.kind == "data" and batch.fate and batch.offset < stable]
