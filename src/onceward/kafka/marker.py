"""The marker: what a transaction carries besides records, so that a restart knows how far the pipeline is.

It travels as the metadata of group offsets, in the transaction it describes. Kafka caps that text at
offset.metadata.max.bytes (4096), so digests per partition are included while they fit.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.errors import HomeMismatch

FORMAT: Final = 1
MAX_BYTES: Final = 4000  # below Kafka's default of 4096 for offset.metadata.max.bytes


class Marker(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last committed epoch of a pipeline."""

    format: int  # without a default, which would be left out: every marker says which format it has
    lineage: str
    epoch: int
    term: int
    rows: int = 0
    digest: str = ""
    # [topic, partition, rows, digest] of each partition written; None when it did not fit
    partitions: list[tuple[str, int, int, str]] | None = None

    @property
    def outcome(self) -> Outcome:
        """What the epoch wrote, as far as the marker tells."""
        partitions = {
            TopicPartition(topic, partition): PartitionOutcome(rows=rows, digest=int(digest, 16))
            for topic, partition, rows, digest in self.partitions or ()
        }
        return Outcome(rows=self.rows, digest=int(self.digest or "0", 16), partitions=partitions)


def of(*, lineage: str, epoch: int, term: int, outcome: Outcome | None) -> tuple[str, str]:
    """The marker's full text, and a short one for the other offsets of the same commit. None: not known any more."""
    short = Marker(format=FORMAT, lineage=lineage, epoch=epoch, term=term)
    if outcome is None:
        text = msgspec.json.encode(short).decode()
        return text, text
    partitions = [
        (place.topic, place.partition, part.rows, f"{part.digest:x}")
        for place, part in sorted(outcome.partitions.items())
    ]
    summary = msgspec.structs.replace(short, rows=outcome.rows, digest=f"{outcome.digest:x}")
    full = msgspec.json.encode(msgspec.structs.replace(summary, partitions=partitions))
    if len(full) > MAX_BYTES:
        full = msgspec.json.encode(summary)
    return full.decode(), msgspec.json.encode(short).decode()


def newest(texts: Iterable[str]) -> Marker | None:
    """The newest marker among a group's offsets; text that is not ours is passed over."""
    found = [marker for text in texts if (marker := parse(text)) is not None]
    return max(found, key=lambda marker: (marker.epoch, marker.term, bool(marker.digest)), default=None)


class _Stamp(msgspec.Struct):
    """What every format of the marker has."""

    format: int
    lineage: str
    epoch: int


def parse(text: str) -> Marker | None:
    """An offset's metadata, if it is a marker; text that is not ours is passed over."""
    try:
        stamp = msgspec.json.decode(text, type=_Stamp)
        if stamp.format > FORMAT:
            raise HomeMismatch(
                f"Kafka's marker of epoch {stamp.epoch} has format {stamp.format}, written by a newer Onceward; this "
                f"one reads up to {FORMAT}"
            )
        return msgspec.json.decode(text, type=Marker)
    except msgspec.DecodeError:  # includes ValidationError: somebody else's metadata
        return None
