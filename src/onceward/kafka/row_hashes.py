"""The hash that Spark's `xxhash64` gives a row, computed here for many rows at once.

Rows that tasks copy from topic to topic never pass through Spark, and their digests must be those that Spark computes
when it replays the epoch. XXH64 takes 32 bytes at a time; a column's hash is the seed of the next one's.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SEED: Final = 42  # Spark's
STRIPE: Final = 32  # bytes that four lanes take, eight each
WORD: Final = 8
BLOCK_ROWS: Final = 1 << 13  # the working arrays of a block stay in the processor's cache
NARROW: Final = np.iinfo(np.uint16).max

U64 = NDArray[np.uint64]
P1, P2, P3, P4, P5 = (
    np.uint64(it)
    for it in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)


def seeds(rows: int) -> U64:
    """Of rows of which no column has been hashed."""
    return np.full(rows, SEED, np.uint64)


def first_flags(flags: NDArray[np.bool_]) -> U64:
    """The first column, of booleans: there are only two of them."""
    return hashed_flags(np.array([False, True]), seeds(2))[flags.view(np.uint8)]


def hashed_flags(flags: NDArray[np.bool_], before: U64) -> U64:
    """A column of booleans, as Spark hashes them: as numbers of four bytes."""
    return hashed_ints(flags.astype(np.int32), before)


def hashed_ints(numbers: NDArray[np.int32], before: U64) -> U64:
    """A column of 32-bit numbers without nulls."""
    return _mixed(_with_four(before + P5 + np.uint64(4), numbers.view(np.uint32).astype(np.uint64)))


def hashed_bytes(column: pa.BinaryArray, before: U64) -> U64:
    """A column of bytes; a null leaves the hash as it was."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    # Words are read where they begin, aligned or not; the last one may begin shortly before the end.
    padded = np.concatenate((np.frombuffer(data or b"", np.uint8)[: bounds[-1]], np.zeros(WORD, np.uint8)))
    result = np.empty(len(column), np.uint64)
    for start, stop in _blocks(len(column)):
        result[start:stop] = _xxh64(padded, bounds[start : stop + 1], before[start:stop])
    if column.null_count:
        missing = column.is_null().to_numpy(zero_copy_only=False)
        result[missing] = before[missing]
    return result


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK_ROWS, rows)) for start in range(0, rows, BLOCK_ROWS))


def _xxh64(data: NDArray[np.uint8], bounds: NDArray[np.int64], seed: U64) -> U64:
    words = np.ndarray((len(data) - WORD + 1,), "<u8", buffer=data.data, strides=(1,))
    lengths, at = np.diff(bounds), bounds[:-1]
    order = _order(lengths)
    if order is not None:
        at, lengths, seed = at[order], lengths[order], seed[order]
    found = seed + P5
    long = int(np.searchsorted(lengths, STRIPE))
    if long < len(lengths):
        found[long:] = _striped(words, at[long:], lengths[long:] // STRIPE, seed[long:])
    found += lengths.astype(np.uint64)
    found = _with_tails(found, data, words, at + lengths // STRIPE * STRIPE, lengths % STRIPE)
    if order is None:
        return _mixed(found)
    result = np.empty_like(found)
    result[order] = _mixed(found)
    return result


def _order(lengths: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Of the rows by their lengths; None where they have it, as rows of one length do."""
    if bool(np.all(lengths[1:] >= lengths[:-1])):
        return None
    narrow = lengths.max() <= NARROW  # numpy sorts 16-bit numbers by radix, much faster
    return np.argsort(lengths.astype(np.uint16) if narrow else lengths, kind="stable")


def _striped(words: U64, at: NDArray[np.int64], stripes: NDArray[np.int64], seed: U64) -> U64:
    """Rows of at least one stripe, ordered by how many they have."""
    lanes = [seed + P1 + P2, seed + P2, seed.copy(), seed - P1]
    most = int(stripes[-1])
    for step, first in enumerate(np.searchsorted(stripes, np.arange(most), side="right").tolist()):
        place = at[first:] + step * STRIPE
        for number, lane in enumerate(lanes):
            lane[first:] = _round(lane[first:], words[place + number * WORD])
    turned = zip(lanes, (1, 7, 12, 18), strict=True)
    found: U64 = np.add.reduce([_rotated(lane, by) for lane, by in turned])
    for lane in lanes:
        found = (found ^ _round(np.uint64(0), lane)) * P1 + P4
    return found


def _with_tails(found: U64, data: NDArray[np.uint8], words: U64, at: NDArray[np.int64], left: NDArray[np.int64]) -> U64:
    """What is left behind the last stripe: words of eight bytes, one of four, single bytes."""
    for _ in range(STRIPE // WORD - 1):
        if (rows := _at_least(WORD, left)) is None:
            break
        found[rows] = _rotated(found[rows] ^ _round(np.uint64(0), words[at[rows]]), 27) * P1 + P4
        at[rows] += WORD
        left[rows] -= WORD
    half = WORD // 2
    if (rows := _at_least(half, left)) is not None:
        found[rows] = _with_four(found[rows], words[at[rows]] & np.uint64(0xFFFFFFFF))
        at[rows] += half
        left[rows] -= half
    for _ in range(half - 1):
        if (rows := _at_least(1, left)) is None:
            break
        found[rows] = _rotated(found[rows] ^ (data[at[rows]].astype(np.uint64) * P5), 11) * P1
        at[rows] += 1
        left[rows] -= 1
    return found


def _at_least(size: int, left: NDArray[np.int64]) -> slice | NDArray[np.int64] | None:
    """The rows of which so much is left; all of them are told as a slice, which copies nothing."""
    if left.min(initial=size) >= size:
        return slice(None)
    rows = np.flatnonzero(left >= size)
    return rows if len(rows) else None


def _with_four(found: U64, number: U64) -> U64:
    return _rotated(found ^ (number * P1), 23) * P2 + P3


def _round(lane: U64 | np.uint64, word: U64) -> U64:
    return _rotated(lane + word * P2, 31) * P1


def _rotated(numbers: U64, bits: int) -> U64:
    return (numbers << np.uint64(bits)) | (numbers >> np.uint64(64 - bits))


def _mixed(found: U64) -> U64:
    found = (found ^ (found >> np.uint64(33))) * P2
    found = (found ^ (found >> np.uint64(29))) * P3
    return found ^ (found >> np.uint64(32))
