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
SNAPPY_JAVA_HEADER: Final = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)  # version, lowest version that can read it

LZ4_BLOCK_BYTES: Final = 1 << 16  # what Java's producer writes: a reader keeps one block in memory
# Magic; version 1 with independent blocks; blocks of 64 KiB; the checksum of these two bytes.
LZ4_FRAME_HEADER: Final = bytes.fromhex("04224d18 60 40 82")
LZ4_STORED: Final = 1 << 31  # in a block's length: the block is not compressed
LZ4_END: Final = bytes(4)


def compress(codec: Compression, data: memoryview) -> bytes:
    return COMPRESSORS[codec](data)


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


COMPRESSORS: Final[dict[Compression, Callable[[memoryview], bytes]]] = {
    Compression.NONE: bytes,
    Compression.GZIP: _gzip,
    Compression.SNAPPY: _snappy,
    Compression.LZ4: _lz4,
    Compression.ZSTD: _zstd,
}
