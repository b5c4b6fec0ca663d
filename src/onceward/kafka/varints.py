"""Kafka's variable-length integers (zigzag, then 7 bits a byte), a whole column at a time."""

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

TABLE_SIZE: Final = 1 << 16  # nearly every length, count and offset delta is below it

# Any integer column; a narrow one is quicker.
Integers: TypeAlias = NDArray[np.int32] | NDArray[np.int64]


def widths(numbers: Integers) -> NDArray[np.uint8]:
    """How many bytes each number takes."""
    # Lengths and counts are -1 or more: there zigzag only doubles, as far as the width goes.
    if len(numbers) and numbers.min() >= -1:
        return _steps(numbers, first=6)
    return _steps(_zigzag(numbers), first=7)


def width(number: int) -> int:
    return int(widths(np.array([number], np.int64))[0])


def varints(numbers: Integers, *, after_zero: bool = False) -> pa.BinaryArray:
    """Each number's bytes as one Arrow row, on demand with a zero byte before them."""
    if len(numbers) and numbers.min() >= -1 and numbers.max() < TABLE_SIZE:
        return (TABLE_AFTER_ZERO if after_zero else TABLE).take(pa.array(numbers + 1))
    return _after_zero(_assemble(numbers)) if after_zero else _assemble(numbers)


def counting(count: int) -> pa.BinaryArray:
    """The bytes of 0, 1, 2, ... below `count`, which is at most TABLE_SIZE. Nothing is copied."""
    return TABLE.slice(1, count)


def _zigzag(numbers: Integers) -> NDArray[np.uint64]:
    signed = numbers.astype(np.int64, copy=False)
    return ((signed << 1) ^ (signed >> 63)).view(np.uint64)


def _steps(numbers: Integers | NDArray[np.uint64], first: int) -> NDArray[np.uint8]:
    """One byte, and another for each power of two that is reached: 2**first, 2**(first + 7), ..."""
    result = np.ones(len(numbers), np.uint8)
    for bits in range(first, int(numbers.max(initial=0)).bit_length(), 7):
        result += numbers >= numbers.dtype.type(1 << bits)
    return result


def _assemble(numbers: Integers) -> pa.BinaryArray:
    zigzag = _zigzag(numbers)
    sizes = _steps(zigzag, first=7)
    offsets = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    data = np.empty(offsets[-1], np.uint8)
    for place in range(int(sizes.max(initial=0))):
        rows = np.flatnonzero(sizes > place)
        more = (sizes[rows] > place + 1).astype(np.uint64) << np.uint64(7)
        data[offsets[rows] + place] = (zigzag[rows] >> np.uint64(7 * place)) & np.uint64(0x7F) | more
    return pa.Array.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _after_zero(rows: pa.BinaryArray) -> pa.BinaryArray:
    return pc.binary_join_element_wise(pa.scalar(b"\0", pa.binary()), rows, pa.scalar(b"", pa.binary()))


TABLE: Final = _assemble(np.arange(-1, TABLE_SIZE))  # row n + 1 holds the bytes of n
TABLE_AFTER_ZERO: Final = _after_zero(TABLE)
