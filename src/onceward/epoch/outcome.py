"""What an epoch wrote: counts and digests, per output partition and in all.

A digest is the sum, modulo 2**64, of a 64-bit hash of each row: it does not depend on the order in which
rows arrive, so that a replay can be compared with the first run (docs/decisions/0005).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self

MODULUS: Final = 1 << 64


class TopicPartition(NamedTuple):
    """A place in Kafka."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Span(NamedTuple):
    """The first offset of some records, and the one after the last."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    """What one partition received. Where it lies is no part of what it is: a replay has the same rows elsewhere."""

    rows: int
    digest: int
    span: "Span | None" = field(default=None, compare=False)  # where its records are, if the target numbers them

    def __add__(self, other: Self) -> Self:
        spans = [span for span in (self.span, other.span) if span is not None]
        span = Span(min(it.first for it in spans), max(it.end for it in spans)) if spans else None
        return type(self)(self.rows + other.rows, (self.digest + other.digest) % MODULUS, span)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What all partitions received together. `partitions` may be empty where only the sum is known."""

    rows: int = 0
    digest: int = 0
    partitions: Mapping[TopicPartition, PartitionOutcome] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Iterable[tuple[TopicPartition, PartitionOutcome]]) -> Self:
        """Add up what tasks report; a partition may come in several parts."""
        partitions: dict[TopicPartition, PartitionOutcome] = {}
        for place, part in parts:
            partitions[place] = partitions[place] + part if place in partitions else part
        total = sum(partitions.values(), start=PartitionOutcome(0, 0))
        return cls(rows=total.rows, digest=total.digest, partitions=partitions)

    def differences(self, other: Self) -> list[str]:
        """Where two runs of one epoch differ, in words; empty when they do not."""
        if (self.rows, self.digest) == (other.rows, other.digest):
            return []
        if not self.partitions or not other.partitions:
            return [f"{self.rows} rows with digest {self.digest:x}, now {other.rows} rows with digest {other.digest:x}"]
        nothing = PartitionOutcome(0, 0)
        found = []
        for place in sorted({*self.partitions, *other.partitions}):
            was, now = self.partitions.get(place, nothing), other.partitions.get(place, nothing)
            if was != now:
                found.append(f"{place}: {was.rows} rows (digest {was.digest:x}), now {now.rows} ({now.digest:x})")
        return found
