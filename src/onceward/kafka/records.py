"""Arrow columns to Kafka record batches (format v2), without a line of Python per row.

Pure: no socket, no clock. `encode` runs where the rows are; `stamp` runs where the batch is sent and
fills in what only the sender knows: the producer's identity, the sequence number and the checksum.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from onceward.errors import RecordTooLarge
from onceward.kafka.batch import HEADER, BatchHeader, frame, stamp
from onceward.kafka.columns import Columns, Hashes, Rows, Run, join, pick
from onceward.kafka.compression import Compression, compress
from onceward.kafka.varints import TABLE_SIZE, counting, varints, width, widths

__all__ = ["BatchHeader", "Columns", "Compression", "EncodedBatch", "encode", "stamp"]

TARGET_BATCH_BYTES: Final = 1_000_000  # under max.message.bytes' default of 1,048,588
MAX_RECORDS: Final = TABLE_SIZE  # of a batch: every offset delta comes from the table of varints
MAX_RECORD_BYTES: Final = 2**31 - 1  # lengths in Kafka are 32 bits wide, whatever a topic allows


NO_DATA: Final = pa.scalar(b"\x01", pa.binary())  # a length of -1
NO_ATTRIBUTES: Final = pa.scalar(b"\0", pa.binary())
# Attributes, a timestamp delta of 0 and the offset delta: one part instead of three.
AT_ONE_TIME: Final = join(pa.scalar(b"\0\0", pa.binary()), counting(MAX_RECORDS))
OFFSET_WIDTHS: Final = widths(np.arange(MAX_RECORDS))


@dataclass(frozen=True, slots=True)
class EncodedBatch:
    route: int  # the caller's number for a topic and partition
    count: int
    digest: int  # sum of the rows' hashes, modulo 2**64
    payload: bytes  # a whole record batch; producer and sequence are unknown, the CRC is not valid yet


def encode(
    columns: Columns,
    routes: NDArray[np.int32],
    hashes: Hashes,
    *,
    compression: Compression,
    max_batch_bytes: Mapping[int, int] | int,
    timestamp_ms: int,
    target_batch_bytes: int = TARGET_BATCH_BYTES,
    name_of: Callable[[int], str] = "route {}".format,
) -> Iterator[EncodedBatch]:
    """Record batches for each route; the rows of a route keep their order.

    No batch is larger than `max_batch_bytes` (the topic's max.message.bytes), one for all or one per route.
    A record that cannot be made to fit raises RecordTooLarge, which calls the route by `name_of`.
    """
    for run in columns.runs(routes, hashes, timestamp_ms):
        rows = _SortedRun.of(run, timestamp_ms)
        for start, stop in rows.stretches():
            route = int(rows.routes[start])
            cap = max_batch_bytes[route] if isinstance(max_batch_bytes, Mapping) else max_batch_bytes
            # Compressed, a batch of the target size may well be under a smaller cap.
            plain = compression is Compression.NONE
            target = min(target_batch_bytes, cap) if plain else target_batch_bytes
            for span in rows.spans(start, stop, target - HEADER.size):
                yield from _fitting(rows, *span, compression, cap, name_of)


@dataclass(frozen=True, slots=True)
class _SortedRun:
    """A run's rows ordered by route. `start` and `stop` below count in that order."""

    run: Run
    order: NDArray[np.int64] | None  # None: they already are
    routes: NDArray[np.int32]
    sizes: NDArray[np.int64]  # see Run.sizes
    ends: NDArray[np.int64]  # running sum of what the records take at most
    timestamp_ms: int

    @classmethod
    def of(cls, run: Run, timestamp_ms: int) -> Self:
        order = _order(run.routes)
        sizes = run.sizes()
        if order is not None:
            sizes = sizes[order]
        deltas_at_most = int(OFFSET_WIDTHS[-1]) + _widest_delta(run.timestamps)
        length_at_most = width(int(sizes.max()) + deltas_at_most)
        return cls(
            run=run,
            order=order,
            routes=run.routes if order is None else run.routes[order],
            sizes=sizes,
            ends=np.cumsum(sizes + (deltas_at_most + length_at_most)),
            timestamp_ms=timestamp_ms,
        )

    def stretches(self) -> Iterator[tuple[int, int]]:
        """Start and stop of each route."""
        changes = np.flatnonzero(np.diff(self.routes)) + 1
        yield from pairwise([0, *changes.tolist(), len(self.routes)])

    def spans(self, start: int, stop: int, target: int) -> Iterator[tuple[int, int]]:
        """As many records at a time as surely fit into `target` bytes, but at least one."""
        while start < stop:
            before = int(self.ends[start - 1]) if start else 0
            full = int(np.searchsorted(self.ends[start:stop], before + target, side="right"))
            end = start + min(max(full, 1), MAX_RECORDS)
            yield start, end
            start = end

    def rows(self, start: int, stop: int) -> Rows:
        return slice(start, stop) if self.order is None else self.order[start:stop]

    def batch(self, start: int, stop: int, compression: Compression) -> bytes:
        """Compressed only where that makes it smaller."""
        rows, first, last, deltas = self.rows(start, stop), self.timestamp_ms, self.timestamp_ms, None
        if self.run.timestamps is not None:
            timestamps = self.run.timestamps[rows]
            first, last = int(timestamps[0]), int(timestamps.max())
            deltas = timestamps - first
        records: tuple[memoryview | bytes, ...] = self._records(rows, self.sizes[start:stop], deltas)
        codec = Compression.NONE
        if compression is not Compression.NONE:
            packed = compress(compression, memoryview(b"".join(records)))
            if len(packed) < sum(map(len, records)):
                records, codec = (packed,), compression
        return frame(records, count=stop - start, codec=codec.attribute, first_ms=first, last_ms=last)

    def _records(
        self, rows: Rows, sizes: NDArray[np.int64], deltas: NDArray[np.int64] | None
    ) -> tuple[memoryview, bytes]:
        """The data buffer of the joined parts is the records, one after the other.

        Without headers a record ends with a zero, their number. That byte leads the next record's parts
        instead, and the whole is cut one byte later: one part less to join, a tenth of the time.
        """
        run, count = self.run, len(sizes)
        lengths = sizes + OFFSET_WIDTHS[:count]
        if deltas is None or not deltas.any():
            lengths += 1
            opening = [AT_ONE_TIME[:count]]
        else:
            lengths += widths(deltas)
            opening = [NO_ATTRIBUTES, varints(deltas), counting(count)]
        joined = join(
            varints(lengths, after_zero=run.headers is None),
            *opening,
            *([pick(run.body, rows)] if run.body is not None else _key_and_value(run, rows)),
            *([] if run.headers is None else [pick(run.headers, rows)]),
        )
        _, offsets, data = joined.buffers()
        size = int(np.frombuffer(offsets, np.int32)[count])
        # A length that says other than its bytes would garble every record after it.
        assert size == int(lengths.sum() + widths(lengths).sum())
        return (memoryview(data)[1:size], b"\0") if run.headers is None else (memoryview(data)[:size], b"")


def _key_and_value(run: Run, rows: Rows) -> list[pa.Array | pa.Scalar]:
    fields = (run.key, run.value)
    return [part for field in fields for part in ([NO_DATA] if field is None else field.parts(rows))]


def _fitting(
    rows: _SortedRun, start: int, stop: int, compression: Compression, cap: int, name_of: Callable[[int], str]
) -> Iterator[EncodedBatch]:
    """One batch, or several when one would be over the cap."""
    route, count, largest = int(rows.routes[start]), stop - start, int(rows.sizes[start:stop].max())
    if largest > MAX_RECORD_BYTES:
        raise _too_large(name_of(route), largest, cap)
    payload = rows.batch(start, stop, compression)
    if len(payload) <= cap:
        digest = int(np.add.reduce(rows.run.hashes[rows.rows(start, stop)]))
        yield EncodedBatch(route=route, count=count, digest=digest, payload=payload)
    elif count > 1:
        parts = min(-(-len(payload) // cap), count)
        for piece in pairwise(np.linspace(start, stop, parts + 1).astype(int).tolist()):
            yield from _fitting(rows, *piece, compression, cap, name_of)
    else:
        raise _too_large(name_of(route), len(payload), cap)


def _too_large(name: str, size: int, cap: int) -> RecordTooLarge:
    return RecordTooLarge(
        f"{name}: one record takes {size} bytes, the topic allows {cap}: "
        "raise the topic's max.message.bytes, or write smaller records"
    )


def _order(routes: NDArray[np.int32]) -> NDArray[np.int64] | None:
    """The stable order by route, or None where the rows have it already."""
    if bool(np.all(routes[1:] >= routes[:-1])):
        return None
    # numpy sorts 16-bit numbers by radix, several times faster.
    narrow = routes.min() >= 0 and routes.max() <= np.iinfo(np.uint16).max
    return np.argsort(routes.astype(np.uint16) if narrow else routes, kind="stable")


def _widest_delta(timestamps: NDArray[np.int64] | None) -> int:
    if timestamps is None:
        return 1
    return width(int(timestamps.max() - timestamps.min()))
