"""The codecs of a record batch, each in the frame that Kafka's own readers expect.

Arrow has the algorithms; two of the frames around them are ours:
lz4 because Arrow links the blocks of a frame and Kafka's reader refuses that
("Dependent block stream is unsupported", Lz4BlockOutputStream.FLG), snappy because Java
readers and writers use snappy-java's stream format.
"""

import struct
from collections.abc import Callable
from enum import StrEnum
from typing import Final

import pyarrow as pa


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"

    @property
    def attribute(self) -> int:
        """The codec's number: the lowest three bits of a batch's attributes."""
        return ATTRIBUTES[self]


ATTRIBUTES: Final = {codec: number for number, codec in enumerate(Compression)}

GZIP_LEVEL: Final = 6  # zlib's and Java's default; Arrow's would be 9, several times slower for 1 % less
SNAPPY_JAVA_MAGIC: Final = b"\x82SNAPPY\0"
SNAPPY_JAVA_HEADER: Final = SNAPPY_JAVA_MAGIC + struct.pack(">ii", 1, 1)  # version, lowest version that can read it

LZ4_BLOCK_BYTES: Final = 1 << 16  # what Java's producer writes: a reader keeps one block in memory
# Magic; version 1 with independent blocks; blocks of 64 KiB; the checksum of these two bytes.
LZ4_FRAME_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
LZ4_STORED: Final = 1 << 31  # in a block's length: the block is not compressed
LZ4_END: Final = bytes(4)


def compress(codec: Compression, data: memoryview) -> bytes:
    return COMPRESSORS[codec](data)


def decompress(codec: Compression, data: bytes) -> bytes:
    """As any client of Kafka has compressed it."""
    return DECOMPRESSORS[codec](data)


def _gzip(data: memoryview) -> bytes:
    return _arrow(pa.Codec("gzip", compression_level=GZIP_LEVEL), data)


def _snappy(data: memoryview) -> bytes:
    block = _arrow(pa.Codec("snappy"), data)
    return b"".join((SNAPPY_JAVA_HEADER, struct.pack(">i", len(block)), block))


def _lz4(data: memoryview) -> bytes:
    codec = pa.Codec("lz4_raw")
    frame = [LZ4_FRAME_HEADER]
    for start in range(0, len(data), LZ4_BLOCK_BYTES):
        plain = data[start : start + LZ4_BLOCK_BYTES]
        block = _arrow(codec, plain)
        if len(block) < len(plain):
            frame += struct.pack("<I", len(block)), block
        else:
            frame += struct.pack("<I", len(plain) | LZ4_STORED), bytes(plain)
    return b"".join((*frame, LZ4_END))


def _zstd(data: memoryview) -> bytes:
    return _arrow(pa.Codec("zstd"), data)


def _arrow(codec: pa.Codec, data: memoryview) -> bytes:
    compressed: bytes = codec.compress(data, asbytes=True)
    return compressed


def _unsnappy(data: bytes) -> bytes:
    """snappy-java's stream of blocks, or one bare block, as librdkafka writes it."""
    if not data.startswith(SNAPPY_JAVA_MAGIC):
        return _unsnappy_block(data)
    blocks, at = [], len(SNAPPY_JAVA_HEADER)
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        at += 4 + size
        blocks.append(_unsnappy_block(data[at - size : at]))
    return b"".join(blocks)


def _unsnappy_block(block: bytes) -> bytes:
    """A block begins with the length of what is in it, seven bits in each byte, the lowest first."""
    digits = next(number for number, byte in enumerate(block) if byte < 0x80) + 1
    size = sum((byte & 0x7F) << 7 * number for number, byte in enumerate(block[:digits]))
    plain: bytes = pa.Codec("snappy").decompress(block, size, asbytes=True)
    return plain


def _unstream(codec: Compression) -> Callable[[bytes], bytes]:
    def read(data: bytes) -> bytes:
        plain: bytes = pa.input_stream(pa.py_buffer(data), compression=codec.value).read()
        return plain

    return read


COMPRESSORS: Final[dict[Compression, Callable[[memoryview], bytes]]] = {
    Compression.NONE: bytes,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
DECOMPRESSORS: Final[dict[Compression, Callable[[bytes], bytes]]] = {
    Compression.NONE: bytes,
    Compression.GZIP: _unstream(Compression.GZIP),
    Compression.SNAPPY: _unsnappy,
    Compression.LZ4: _unstream(Compression.LZ4),
    Compression.ZSTD: _unstream(Compression.ZSTD),
}
