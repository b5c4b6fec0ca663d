"""The records of a batch as Arrow columns, without an object for each record.

Pure. Where each record begins is the sum of the lengths before it, so one plain loop finds that; everything else is
done for all records at once. What does not add up is an error: nothing here guesses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from onceward.errors import BrokerRefused

MOST_BYTES: Final = (1 << 31) - 1  # of the records of a batch: Arrow's offsets have 32 bits
MORE: Final = 0x80  # in a byte of a varint: another one follows
DIGITS: Final = 0x7F
LONGEST: Final = 10  # bytes of a varint

Places = NDArray[np.int64]


class Malformed(BrokerRefused):
    """A record batch whose records are not where its lengths say."""


@dataclass(frozen=True, slots=True)
class Records:
    """The records of one batch."""

    deltas: Places  # of their offsets, to the batch's first
    key: pa.BinaryArray
    value: pa.BinaryArray
    body: pa.BinaryArray  # key and value as they stand in a record: the length before each
    begins: Places  # where each record begins, and where the last one ends

    def __len__(self) -> int:
        return len(self.deltas)

    def taken(self, rows: Places) -> "Records":
        """Some of them."""
        wanted = pa.array(rows)
        columns = (self.key.take(wanted), self.value.take(wanted), self.body.take(wanted))
        return Records(self.deltas[rows], *columns, self.begins)


def decode_together(sections: Sequence[bytes], counts: Sequence[int]) -> Records:
    """The records of small batches as if they were one; each delta counts from its own batch's first offset."""
    together = decode(b"".join(sections), sum(counts))
    if (together.begins[np.cumsum(counts)] != np.cumsum([len(it) for it in sections])).any():
        raise Malformed("a record batch ends within a record")
    return together


def decode(section: bytes, count: int, most: int | None = None) -> Records:
    """What follows a batch's header, not compressed (any more). most: only so many of its records, the first ones."""
    if len(section) > MOST_BYTES:
        raise Malformed(f"a record batch of {len(section)} bytes is more than can be read at once")
    try:
        return _records(section, _begins(section, count, count if most is None else min(most, count)))
    except IndexError:
        raise Malformed("a record batch ends within a record") from None


def _begins(section: bytes, count: int, wanted: int) -> Places:
    """Where each wanted record begins, with its length, and where the last one ends.

    This is the one loop over records: nearly every length has one byte or two, and these come first.
    """
    at, begins = 0, [0]
    for _ in range(wanted):
        byte = section[at]
        if byte < MORE:
            at += 1 + (byte >> 1)  # zigzag; a negative length would be odd, and is noticed by what follows
        elif (second := section[at + 1]) < MORE:
            at += 2 + ((byte & DIGITS | second << 7) >> 1)
        else:
            at += _long(section, at)
        begins.append(at)
    if at > len(section) or (wanted == count and at != len(section)):
        raise Malformed(f"a record batch has {len(section)} bytes of records, and its {count} records take {at}")
    return np.array(begins, np.int64)


def _long(section: bytes, at: int) -> int:
    """What a record takes, its length included."""
    size, place = 0, 0
    while (byte := section[at + place]) & MORE and place < LONGEST:
        size |= (byte & DIGITS) << 7 * place
        place += 1
    return place + 1 + ((size | byte << 7 * place) >> 1)


def _records(section: bytes, begins: Places) -> Records:
    data, ends = np.frombuffer(section, np.uint8), begins[1:]
    _, at = _varints(data, begins[:-1])
    attributes = 1
    _, at = _varints(data, at + attributes)  # the timestamp's delta
    deltas, body = _varints(data, at)
    key_lengths, keys = _varints(data, body)
    key_ends = keys + np.maximum(key_lengths, 0)
    value_lengths, values = _varints(data, key_ends)
    value_ends = values + np.maximum(value_lengths, 0)
    # The number of headers takes at least a byte; a length below -1 is no length.
    sound = (value_ends < ends) & (key_lengths >= -1) & (value_lengths >= -1) & (key_ends <= ends)
    if not sound.all():
        raise Malformed("a record of a batch is longer than its own length says")
    return Records(
        deltas=deltas,
        key=_cut_out(section, keys, key_ends, key_lengths < 0),
        value=_cut_out(section, values, value_ends, value_lengths < 0),
        body=_cut_out(section, body, value_ends, None),
        begins=begins,
    )


def _varints(data: NDArray[np.uint8], at: Places) -> tuple[Places, Places]:
    """The numbers that begin at these places, and the places behind them."""
    byte = data[at]
    found = (byte & DIGITS).astype(np.int64)
    at = at + 1
    longer = np.flatnonzero(byte & MORE)
    for place in range(1, LONGEST):
        if not len(longer):
            break
        byte = data[at[longer]]
        found[longer] |= (byte & DIGITS).astype(np.int64) << (7 * place)
        at[longer] += 1
        longer = longer[(byte & MORE) != 0]
    unsigned = found.view(np.uint64)
    return (unsigned >> np.uint64(1)).view(np.int64) ^ -(found & 1), at


def _cut_out(section: bytes, starts: Places, ends: Places, nulls: NDArray[np.bool_] | None) -> pa.BinaryArray:
    """One row for each stretch; what lies between two stretches is a row too, and left out."""
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends
    offsets[-1] = ends[-1] if count else 0
    rows = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(section)])
    wanted = np.arange(0, 2 * count, 2)
    return rows.take(pa.array(wanted, mask=nulls) if nulls is not None and nulls.any() else pa.array(wanted))
