"""Which partition a row goes to: as Java's producer decides it, so that topics written by either join.

Pure, and vectorised over the rows: step n mixes the n-th word of every key that is long enough.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from onceward.errors import InvalidRows

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995  # murmur2's multiplier, by its usual name
MASK: Final = 0xFFFFFFFF
WORD: Final = 4  # bytes that murmur2 takes at a time

BLOCK_ROWS: Final = 1 << 14  # the working arrays of a block stay in the processor's cache
BLOCK_BYTES: Final = 4 << 20
FEW_ROWS: Final = 16  # below it plain Python beats numpy: a handful of very long keys


def partitions(keys: pa.Array, hashes: NDArray[np.int64] | NDArray[np.uint64], count: int) -> NDArray[np.int32]:
    """Each row's partition out of `count`.

    A row without a key goes where its hash says: evenly spread, and to the same place in every attempt.
    """
    result = (murmur2(keys) & np.int32(0x7FFFFFFF)) % np.int32(count)
    if keys.null_count:
        missing = keys.is_null().to_numpy(zero_copy_only=False)
        result[missing] = hashes[missing].view(np.uint64) % np.uint64(count)
    return result


def murmur2(keys: pa.Array) -> NDArray[np.int32]:
    """Java's `org.apache.kafka.common.utils.Utils.murmur2` of each key; for a null, any number."""
    result = np.zeros(len(keys), np.uint32)
    if len(keys) and not pa.types.is_null(keys.type):
        data, offsets = _buffers(keys)
        for start, stop in _blocks(offsets):
            result[start:stop] = _murmur2(data, offsets[start : stop + 1])
    return result.view(np.int32)


def _buffers(keys: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    kind = keys.type
    if pa.types.is_binary(kind) or pa.types.is_string(kind):
        width: type[np.int32 | np.int64] = np.int32
    elif pa.types.is_large_binary(kind) or pa.types.is_large_string(kind):
        width = np.int64
    else:
        raise InvalidRows(f"column 'key' has type {kind}; Kafka takes binary or string: cast it in the query")
    _, offsets, data = keys.buffers()
    ends = np.frombuffer(offsets, width)[keys.offset : keys.offset + len(keys) + 1]
    return np.frombuffer(data or b"", np.uint8), ends.astype(np.int64)


def _blocks(offsets: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    start, rows = 0, len(offsets) - 1
    while start < rows:
        full = int(np.searchsorted(offsets, offsets[start] + BLOCK_BYTES, side="right")) - 1
        stop = min(max(full, start + 1), start + BLOCK_ROWS, rows)
        yield start, stop
        start = stop


def _murmur2(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The hashes of the keys between neighbouring offsets."""
    lengths = np.diff(offsets)
    if len(lengths) < FEW_ROWS:
        pairs = zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        return np.array([_murmur2_of_one(data[start:stop].tobytes()) for start, stop in pairs], np.uint32)

    words = _words(data[offsets[0] : offsets[-1]])
    counts = lengths // WORD
    narrow = counts.max() <= np.iinfo(np.uint16).max  # numpy sorts 16-bit numbers by radix, much faster
    order = np.argsort(counts.astype(np.uint16) if narrow else counts, kind="stable")
    counts, lengths = counts[order], lengths[order]
    at = (offsets[:-1] - offsets[0])[order] + WORD
    ends = at + lengths - WORD

    mixed = np.uint32(SEED) ^ lengths.astype(np.uint32)
    steps = int(counts[-1])
    for step, first in enumerate(np.searchsorted(counts, np.arange(steps), side="right").tolist()):
        if len(counts) - first < FEW_ROWS and steps - step > FEW_ROWS:
            for row in range(first, len(counts)):
                rest = np.arange(step, counts[row]) * WORD + at[row]
                mixed[row] = _mix_one_by_one(int(mixed[row]), words[rest])
            break
        mixed[first:] *= np.uint32(M)
        mixed[first:] ^= _scramble(words.take(at[first:] + step * WORD))

    result = np.empty_like(mixed)
    result[order] = _finish(_mix_tail(mixed, words.take(ends), lengths % WORD))
    return result


def _words(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Row n: the little-endian word whose last byte is data[n - 1].

    Spelled out for every byte, because gathering aligned words is several times quicker. The four zeros in
    front let a key shorter than a word be read by its end.
    """
    padded = np.concatenate((np.zeros(WORD, np.uint8), data))
    return np.ascontiguousarray(np.ndarray((len(data) + 1,), "<u4", buffer=padded.data, strides=(1,)))


def _scramble(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    scrambled = words * np.uint32(M)
    scrambled ^= scrambled >> np.uint32(24)
    scrambled *= np.uint32(M)
    return scrambled


def _mix_tail(
    mixed: NDArray[np.uint32], last_words: NDArray[np.uint32], remainders: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """The last one to three bytes: the upper end of the word that ends where the key ends."""
    shifts = ((WORD - remainders) * 8 % 32).astype(np.uint32)
    return np.where(remainders > 0, (mixed ^ (last_words >> shifts)) * np.uint32(M), mixed)


def _finish(mixed: NDArray[np.uint32]) -> NDArray[np.uint32]:
    mixed ^= mixed >> np.uint32(13)
    mixed *= np.uint32(M)
    mixed ^= mixed >> np.uint32(15)
    return mixed


def _mix_one_by_one(mixed: int, words: NDArray[np.uint32]) -> int:
    for word in _scramble(words).tolist():
        mixed = (mixed * M & MASK) ^ word
    return mixed


def _murmur2_of_one(key: bytes) -> int:
    mixed = _mix_one_by_one(SEED ^ len(key), np.frombuffer(key, "<u4", len(key) // WORD))
    if tail := key[len(key) // WORD * WORD :]:
        mixed = (mixed ^ int.from_bytes(tail, "little")) * M & MASK
    mixed ^= mixed >> 13
    mixed = mixed * M & MASK
    return mixed ^ mixed >> 15
