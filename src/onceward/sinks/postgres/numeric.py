"""Decimals and integers in PostgreSQL's binary form of numeric: digits to the base 10,000, a whole column at once.

Every value of a column is given the same number of digits; PostgreSQL strips the zeros at both ends itself.
"""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NEGATIVE: Final = 0x4000
_HALF: Final = np.uint64(0xFFFFFFFF)

Limbs = list[NDArray[np.uint64]]  # of a magnitude, to the base 2**32, highest first


def numerics(column: pa.Array) -> NDArray[np.uint8]:
    """One row of bytes per value; nulls count as zero."""
    if pa.types.is_decimal(column.type):
        precision, scale = column.type.precision, column.type.scale
        magnitude, negative = _split_decimals(column.cast(pa.decimal128(precision, scale)), precision)
    else:
        precision, scale = 19, 0
        values = column.fill_null(0).to_numpy().astype(np.int64)
        negative = values < 0
        unsigned = values.view(np.uint64)
        magnitude = [np.where(negative, ~unsigned + np.uint64(1), unsigned)]
    fraction, whole = -(-scale // 4), max(1, -(-(precision - scale) // 4))
    fields = np.zeros((len(column), 4 + fraction + whole), ">i2")
    fields[:, :4] = (fraction + whole, whole - 1, 0, scale)
    fields[:, 2] = np.where(negative, _NEGATIVE, 0)
    digits = fields[:, 4:]
    place = fraction + whole - 1
    if scale % 4:  # the last digit of the fraction is only partly filled
        rest = _divide(magnitude, 10 ** (scale % 4))
        digits[:, place] = rest * np.uint64(10 ** (4 - scale % 4))
        place -= 1
    while place >= 0:
        pair = _divide(magnitude, 10**8)  # two digits for the price of one long division
        digits[:, place] = pair % np.uint64(10_000)
        if place:
            digits[:, place - 1] = pair // np.uint64(10_000)
        place -= 2
    return fields.view(np.uint8)


def _split_decimals(column: pa.Array, precision: int) -> tuple[Limbs, NDArray[np.bool_]]:
    """Magnitude and sign of 128-bit two's complement."""
    column = column.fill_null(0) if column.null_count else column
    words = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = words[0::2], words[1::2]
    negative = high >= np.uint64(1 << 63)
    flipped = ~low + np.uint64(1)
    magnitude_low = np.where(negative, flipped, low)
    if precision <= 19:  # 10**19 is below 2**64
        return [magnitude_low], negative
    magnitude_high = np.where(negative, ~high + (flipped == 0), high)
    halves = [word for words in (magnitude_high, magnitude_low) for word in (words >> np.uint64(32), words & _HALF)]
    return halves, negative


def _divide(limbs: Limbs, divisor: int) -> NDArray[np.uint64]:
    """Divide in place; what remains."""
    by, rest = np.uint64(divisor), np.zeros(len(limbs[0]), np.uint64)
    for index, limb in enumerate(limbs):
        current = (rest << np.uint64(32)) | limb if index else limb
        limbs[index], rest = np.divmod(current, by)
    return rest
