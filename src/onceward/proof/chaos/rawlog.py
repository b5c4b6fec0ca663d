"""The log as it lies on the broker's disk: batches and end markers, read without any Kafka client.

The layout of a version 2 batch is Kafka's public record format: https://kafka.apache.org/documentation/#recordbatch
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from onceward.proof.history import LogBatch, Place

# base offset, length, leader epoch, magic, crc, attributes, last offset delta, first and last timestamp, producer id,
# producer epoch, base sequence, number of records
HEADER: Final = struct.Struct(">qiibIhiqqqhii")
FRAME: Final = 12  # base offset and length are not counted in the length
CONTROL: Final = 0x20
COMMIT: Final = 1
_MARKER: Final = struct.Struct(">hh")  # the key of a control record: version and type


def read(data: Path, place: Place, epochs: Mapping[int, int]) -> tuple[LogBatch, ...]:
    """A partition's batches in order. `epochs`: by offset, to which of ours a record belongs."""
    folder = data / f"{place[0]}-{place[1]}"
    return tuple(batch for segment in sorted(folder.glob("*.log")) for batch in _segment(segment.read_bytes(), epochs))


def _segment(content: bytes, epochs: Mapping[int, int]) -> Iterator[LogBatch]:
    at = 0
    while at + HEADER.size <= len(content):
        offset, length, _, _, _, attributes, _, _, _, producer, epoch, sequence, records = HEADER.unpack_from(
            content, at
        )
        if length <= 0 or at + FRAME + length > len(content):
            return  # the segment is preallocated, or the broker is writing
        if attributes & CONTROL:
            yield LogBatch("commit" if _is_commit(content, at) else "abort", producer, epoch)
        else:
            yield LogBatch("data", producer, epoch, sequence, records, epochs.get(offset, -1), offset)
        at += FRAME + length


def _is_commit(content: bytes, at: int) -> bool:
    """A control record: length, attributes, timestamp and offset deltas of one byte each (all zero), key length 4."""
    key = at + HEADER.size + 5
    return bool(_MARKER.unpack_from(content, key)[1] == COMMIT)
