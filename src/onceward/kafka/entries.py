"""What an answer's records consist of: record batches, or, in segments of long ago, messages of format v0 and v1.

Brokers serve such segments as they are. The byte that names the format is at the same place in all of them, and what
follows may be read only once it is known.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import google_crc32c
import pyarrow as pa
from kafka.errors import KafkaError
from kafka.record.legacy_records import LegacyRecordBatch

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.batch import CRC_COUNTS_FROM, HEADER, LENGTH_COUNTS_FROM, MAGIC, BatchHeader
from onceward.kafka.compression import Compression, decompress
from onceward.kafka.decoding import Malformed

MAGIC_AT: Final = 16
OLD_BYTES: Final = 14  # of the smallest message after its length: checksum, format, attributes, two lengths
CODECS: Final = tuple(Compression)
CODEC_BITS: Final = 0x07
_LENGTH: Final = struct.Struct(">i")


class Entry(NamedTuple):
    """One batch, or one message of an older format, which may hold several that are compressed."""

    place: TopicPartition
    first: int  # offset
    last: int
    data: memoryview  # of the answer: what a topic gives is copied once, when it is unpacked
    known: BatchHeader | None  # None: of an older format
    old: tuple[Any, ...] = ()  # the records of that

    @property
    def header(self) -> BatchHeader:
        """Of format v2, for those who read no other."""
        if self.known is None:
            raise BrokerRefused(
                f"{self.place} at {self.first}: records of format v{self.data[MAGIC_AT]}, from before Kafka 0.11; "
                f"only v{MAGIC} is read here"
            )
        return self.known


def entries(place: TopicPartition, records: Any) -> Iterator[Entry]:
    """All but one that is cut off: it comes with the next answer."""
    data, at = memoryview(records or b""), 0
    while at + MAGIC_AT < len(data):
        (length,) = _LENGTH.unpack_from(data, at + LENGTH_COUNTS_FROM - _LENGTH.size)
        magic, end = data[at + MAGIC_AT], at + LENGTH_COUNTS_FROM + length
        if length < (HEADER.size - LENGTH_COUNTS_FROM if magic == MAGIC else OLD_BYTES):
            raise Malformed(f"{place}: a record batch of format v{magic} in {length} bytes")
        if end > len(data):
            return
        yield _v2(place, data[at:end]) if magic == MAGIC else _old(place, data[at:end], magic)
        at = end


def unpacked(entry: Entry) -> bytes:
    """What follows a batch's header, as it was before it was compressed; compared with its checksum."""
    header = entry.header
    if google_crc32c.value(pa.py_buffer(entry.data[CRC_COUNTS_FROM:])) != header.crc:
        raise BrokerRefused(f"{entry.place} at {entry.first}: the record batch does not fit its checksum")
    section = bytes(entry.data[HEADER.size :])
    if header.record_count == 0:  # compaction has emptied it, and keeps it for its producer's sequence
        if section:
            raise Malformed(f"{entry.place} at {entry.first}: a batch of no records with {len(section)} bytes of them")
        return b""
    return decompress(CODECS[header.attributes & CODEC_BITS], section)


def _v2(place: TopicPartition, data: memoryview) -> Entry:
    header = BatchHeader.of(data)
    return Entry(place, header.base_offset, header.last_offset, data, header)


class _Old(LegacyRecordBatch):  # type: ignore[misc]  # kafka-python tells no types of it
    """kafka-python's reader of these, with our codecs."""

    def _decompress(self, key_offset: int) -> bytes:
        _, value = self._read_key_value(key_offset)
        return decompress(CODECS[self.compression_type], value)


def _old(place: TopicPartition, data: memoryview, magic: int) -> Entry:
    (offset,) = struct.unpack_from(">q", data)
    if magic > MAGIC:
        raise BrokerRefused(f"{place} at {offset}: a record batch of format v{magic}, which is not known here")
    message = _Old(data, magic)
    if not message.validate_crc():
        raise BrokerRefused(f"{place} at {offset}: the message does not fit its checksum")
    try:
        records = tuple(message)
        first = records[0].offset
    except (KafkaError, OSError, ValueError, TypeError, AssertionError, IndexError, struct.error) as error:
        raise Malformed(f"{place} at {offset}: a message of format v{magic} cannot be read ({error!r})") from error
    return Entry(place, first, offset, data, None, records)
