"""Record batches as a broker keeps them, and a leader's answers that hold some."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa

from onceward.kafka.batch import CONTROL, HEADER, BatchHeader, stamp
from onceward.kafka.compression import Compression
from onceward.kafka.records import Columns, encode
from support.brokers import said


def batch(
    offset: int, *values: str, producer: int = 7, transactional: bool = True, at_ms: int = 1, codec: str = "none"
) -> bytes:
    """As a broker keeps it."""
    (made,) = encode(
        Columns(key=pa.array(["k"] * len(values)), value=pa.array(values)),
        np.zeros(len(values), np.int32),
        np.arange(len(values)),
        compression=Compression(codec),
        max_batch_bytes=1 << 20,
        timestamp_ms=at_ms,
    )
    data = stamp(made.payload, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=transactional)
    return BatchHeader.of(data)._replace(base_offset=offset).packed() + data[HEADER.size :]


def ended(offset: int, *, producer: int = 7) -> bytes:
    """The end of a transaction: a batch of the broker's own."""
    data = batch(offset, "commit or abort", producer=producer)
    header = BatchHeader.of(data)
    return header._replace(attributes=header.attributes | CONTROL).packed() + data[HEADER.size :]


def fetched(*kept: bytes, bound: int = 99, aborted: tuple[tuple[int, int], ...] | None = ()) -> SimpleNamespace:
    """`aborted`: first offset and producer of each transaction that was."""
    gone = None if aborted is None else [SimpleNamespace(first_offset=at, producer_id=by) for at, by in aborted]
    part = said(
        records=b"".join(kept) or None, aborted_transactions=gone, last_stable_offset=bound, high_watermark=bound
    )
    return SimpleNamespace(throttle_time_ms=0, responses=[SimpleNamespace(partitions=[part])])
