"""The frame of a record batch (format v2): its 61-byte header, and what the sender fills in."""

import struct
from typing import Final, NamedTuple, Self

import google_crc32c
import pyarrow as pa

MAGIC: Final = 2
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
UNKNOWN: Final = -1  # leader epoch, producer id, producer epoch and base sequence before they are known


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in order, big-endian. The layout stands here and nowhere else."""

    base_offset: int  # int64; the broker sets it
    length: int  # int32; bytes after this field
    leader_epoch: int  # int32
    magic: int  # int8; 2
    crc: int  # uint32; CRC32C of all that follows
    attributes: int  # int16; codec (bits 0-2), log-append time (3), transactional (4), control (5)
    last_offset_delta: int  # int32
    base_timestamp: int  # int64; the first record's
    max_timestamp: int  # int64
    producer_id: int  # int64
    producer_epoch: int  # int16
    base_sequence: int  # int32
    record_count: int  # int32

    @classmethod
    def of(cls, payload: bytes | memoryview) -> Self:
        return cls(*HEADER.unpack_from(payload))

    def packed(self) -> bytes:
        return HEADER.pack(*self)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """The broker's own: the end of a transaction."""
        return bool(self.attributes & CONTROL)


HEADER: Final = struct.Struct(">qiibIhiqqqhii")
LENGTH_COUNTS_FROM: Final = struct.calcsize(">qi")
CRC_COUNTS_FROM: Final = struct.calcsize(">qiibI")


def frame(records: tuple[memoryview | bytes, ...], *, count: int, codec: int, first_ms: int, last_ms: int) -> bytes:
    """A whole batch that no producer owns yet; its CRC is not valid."""
    header = BatchHeader(
        base_offset=0,
        length=HEADER.size - LENGTH_COUNTS_FROM + sum(map(len, records)),
        leader_epoch=UNKNOWN,
        magic=MAGIC,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=first_ms,
        max_timestamp=last_ms,
        producer_id=UNKNOWN,
        producer_epoch=UNKNOWN,
        base_sequence=UNKNOWN,
        record_count=count,
    )
    return b"".join((header.packed(), *records))


def stamp(payload: bytes, *, producer_id: int, producer_epoch: int, base_sequence: int, transactional: bool) -> bytes:
    """The same batch under a producer's identity, with a valid checksum."""
    old = BatchHeader.of(payload)
    header = old._replace(
        attributes=old.attributes | TRANSACTIONAL if transactional else old.attributes & ~TRANSACTIONAL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    records = pa.py_buffer(payload).slice(HEADER.size)  # no copy; the checksum takes no memoryview
    crc = google_crc32c.extend(google_crc32c.value(header.packed()[CRC_COUNTS_FROM:]), records)
    return b"".join((header._replace(crc=crc).packed(), records))
