"""The records of the benchmarks, and whether what came out is what went in: every record, once, whole, in order.

Each value begins with its number, ten digits, and goes on with letters that follow from the number. So a reader needs
no copy of the input to judge an output, and numpy judges millions in a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

DIGITS = 10
KEY_BYTES = 10
KEYS = 1_000_000
SPREAD = 2_654_435_761  # odd, so consecutive numbers have keys that are far apart
STEP = 7_919
# Random letters: they compress to about 5 of 8 bits, worse than most real data.
BLOCK = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz012345", np.uint8)[
    np.random.default_rng(7).integers(0, 32, 8192, np.uint8)
]
UPPER = np.where(np.isin(BLOCK, np.frombuffer(b"012345", np.uint8)), BLOCK, BLOCK - 32).astype(np.uint8)
POWERS = 10 ** np.arange(DIGITS - 1, -1, -1, dtype=np.int64)
AT_MOST = 5  # problems that are told

Bytes = NDArray[np.uint8]
Numbers = NDArray[np.int64]


def offsets(numbers: Numbers, length: int) -> Numbers:
    """Where in the block a value's letters begin."""
    return numbers * STEP % (len(BLOCK) - length)


def digits(numbers: Numbers) -> Bytes:
    return (numbers[:, None] // POWERS % 10 + ord("0")).astype(np.uint8)


def keys_of(numbers: Numbers) -> Bytes:
    """The letter k and nine digits."""
    found = digits(numbers * SPREAD % KEYS)
    found[:, 0] = ord("k")
    return found


def values_of(numbers: Numbers, size: int, block: Bytes = BLOCK) -> Bytes:
    letters = size - DIGITS
    places = offsets(numbers, letters)[:, None] + np.arange(letters)
    return np.concatenate((digits(numbers), block[places]), axis=1)


def column(rows: Bytes) -> pa.Array:
    """Rows of equal length as Arrow's binary."""
    count, size = rows.shape
    ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * size)
    return pa.Array.from_buffers(pa.binary(), count, [None, ends, pa.py_buffer(np.ascontiguousarray(rows))])


@dataclass(slots=True)
class Verdict:
    """Takes an output piece by piece.

    keyed: each record has its key; a system that keeps no keys (PyFlink's DataStream reads values alone) is not asked.
    ordered: each partition has the order of its numbers, as the input has.
    """

    count: int
    size: int
    keyed: bool = True
    ordered: bool = True
    upper: bool = False  # the function of P3 has been applied
    _seen: NDArray[np.uint16] = field(init=False)
    _last: dict[int, int] = field(default_factory=dict)
    _wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._seen = np.zeros(self.count, np.uint16)

    def take(self, partition: int, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> None:
        """Records of one partition, in their order."""
        if not values:
            return
        if any(it is None or len(it) != self.size for it in values):
            self._tell(f"a value in partition {partition} is not {self.size} bytes long")
            return
        rows = np.frombuffer(b"".join(it or b"" for it in values), np.uint8).reshape(len(values), self.size)
        numbers = (rows[:, :DIGITS].astype(np.int64) - ord("0")) @ POWERS
        if ((numbers < 0) | (numbers >= self.count)).any():
            self._tell(f"partition {partition} has a record that was never sent")
            return
        if not np.array_equal(rows, values_of(numbers, self.size, UPPER if self.upper else BLOCK)):
            self._tell(f"a value in partition {partition} is altered")
        np.add.at(self._seen, numbers, 1)
        if self.keyed and b"".join(it or b"" for it in keys) != keys_of(numbers).tobytes():
            self._tell(f"a key in partition {partition} is altered")
        if self.keyed and self.ordered:
            self._take_order(partition, numbers)

    def _take_order(self, partition: int, numbers: Numbers) -> None:
        before = np.concatenate(([self._last.get(partition, -1)], numbers[:-1]))
        if (numbers <= before).any():
            self._tell(f"partition {partition} is not in the input's order")
        self._last[partition] = int(numbers[-1])

    def _tell(self, problem: str) -> None:
        if problem not in self._wrong and len(self._wrong) < AT_MOST:
            self._wrong.append(problem)

    def wrong(self) -> list[str]:
        """Nothing, if all is well."""
        lost, doubled = int((self._seen == 0).sum()), int((self._seen > 1).sum())
        found = [f"{lost:,} of {self.count:,} records are missing"] if lost else []
        return [*found, *([f"{doubled:,} records are there more than once"] if doubled else []), *self._wrong]
