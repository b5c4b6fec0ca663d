"""Bytes as brokers keep them, made record by record as the format is described, or by another library."""

import gzip
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import google_crc32c
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from onceward.kafka.batch import (
    CONTROL,
    CRC_COUNTS_FROM,
    HEADER,
    LENGTH_COUNTS_FROM,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
)

GZIP: Final = 1
COMMIT: Final = 1
_CONTROL_KEY: Final = struct.Struct(">hh")  # version and type
_CONTROL_VALUE: Final = struct.Struct(">hi")  # version, and the coordinator's epoch
_MOST: Final = 1 << 24


class Writer(NamedTuple):
    """Who writes a batch, and where in its sequence; -1: nobody that brokers know."""

    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    transactional: bool = False


KeyValue = tuple[bytes | None, bytes | None]


def batch(
    first: int,
    last: int,
    records: Mapping[int, KeyValue],
    writer: Writer = Writer(),  # noqa: B008 - a tuple, which nobody can change
    *,
    codec: int = 0,
    at_ms: int = 1,
) -> bytes:
    """Offsets from first to last. Some may be gone: compaction leaves a batch its own offsets, and may empty it."""
    section = b"".join(_record(offset - first, *pair) for offset, pair in records.items())
    if codec and records:
        section = gzip.compress(section, 1)
    attributes = (codec if records else 0) | (TRANSACTIONAL if writer.transactional else 0)
    return _sealed(section, first, last, writer, attributes, len(records), at_ms)


def end(first: int, writer: Writer, *, commits: bool) -> bytes:
    """The broker's own record at the end of a transaction."""
    section = _record(0, _CONTROL_KEY.pack(0, COMMIT if commits else 0), _CONTROL_VALUE.pack(0, 0))
    return _sealed(section, first, first, writer._replace(sequence=-1), TRANSACTIONAL | CONTROL, 1)


def old(magic: int, first: int, records: Sequence[KeyValue], *, codec: int = 0, at_ms: int = 1) -> bytes:
    """Messages of format v0 or v1 that follow each other; compressed, they are one message that holds all."""
    if not codec:
        made = [_old(magic, 0, [(first + place, it)], at_ms) for place, it in enumerate(records)]
        return b"".join(made)
    # Inside of a compressed message offsets are those of the log in v0, and count from the first one in v1.
    inner = [(place if magic else first + place, it) for place, it in enumerate(records)]
    message = bytearray(_old(magic, codec, inner, at_ms))
    struct.pack_into(">q", message, 0, first + len(records) - 1)
    return bytes(message)


def _old(magic: int, codec: int, records: Sequence[tuple[int, KeyValue]], at_ms: int) -> bytes:
    builder: Any = LegacyRecordBatchBuilder(magic, codec, _MOST)
    for offset, (key, value) in records:
        builder.append(offset, at_ms, key, value)
    return bytes(builder.build())


def _record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    """Attributes, the deltas of its time and offset, key, value, and no headers; before all of it its length."""
    body = b"\0\0" + _varint(delta) + _bytes(key) + _bytes(value) + b"\0"
    return _varint(len(body)) + body


def _bytes(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    rest, found = (number << 1) ^ (number >> 63), bytearray()
    while rest > 0x7F:
        found.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes((*found, rest))


def _sealed(
    section: bytes, first: int, last: int, writer: Writer, attributes: int, count: int, at_ms: int = 1
) -> bytes:
    """With its place in the log, and a checksum that fits."""
    header = BatchHeader(
        base_offset=first,
        length=HEADER.size - LENGTH_COUNTS_FROM + len(section),
        leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=last - first,
        base_timestamp=at_ms,
        max_timestamp=at_ms,
        producer_id=writer.producer_id,
        producer_epoch=writer.producer_epoch,
        base_sequence=writer.sequence,
        record_count=count,
    )
    crc = google_crc32c.value(header.packed()[CRC_COUNTS_FROM:] + section)
    return header._replace(crc=crc).packed() + section
