"""Record batches as a broker keeps them, and a leader's answers that hold some."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from kafka.protocol.consumer import FetchResponse

from onceward.kafka.batch import HEADER, BatchHeader, stamp
from onceward.kafka.compression import Compression
from onceward.kafka.records import Columns, encode
from onceward.proof.simulation.reading import kept
from support.brokers import said


def batch(
    offset: int,
    *values: str,
    producer: int = 7,
    epoch: int = 0,
    transactional: bool = True,
    at_ms: int = 1,
    codec: str = "none",
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
    data = stamp(made.payload, producer_id=producer, producer_epoch=epoch, base_sequence=0, transactional=transactional)
    return BatchHeader.of(data)._replace(base_offset=offset).packed() + data[HEADER.size :]


def ended(offset: int, *, producer: int = 7, commits: bool = True) -> bytes:
    """The end of a transaction: a batch of the broker's own."""
    return kept.end(offset, kept.Writer(producer, 0), commits=commits)


def thinned(first: int, last: int, values: dict[int, str] | None = None) -> bytes:
    """A batch that compaction has been at, or has emptied."""
    records: dict[int, kept.KeyValue] = {at: (b"k", value.encode()) for at, value in (values or {}).items()}
    return kept.batch(first, last, records)


def old(magic: int, offset: int, *values: str, codec: int = 0) -> bytes:
    """Messages from before Kafka 0.11."""
    return kept.old(magic, offset, [(b"k", value.encode()) for value in values], codec=codec, at_ms=5)


def fetched(
    *kept: bytes,
    bound: int = 99,
    aborted: tuple[tuple[int, int], ...] | None = (),
    partition: int = 0,
    error_code: int = 0,
    throttle_ms: int = 0,
) -> FetchResponse:
    """A leader's answer about a partition of topic t, as brokers send it.

    `aborted`: first offset and producer of each transaction that was. `bound`: where readers reach the end.
    """
    topic = FetchResponse.FetchableTopicResponse
    part = topic.PartitionData
    gone = None
    if aborted is not None:
        gone = [part.AbortedTransaction(first_offset=at, producer_id=by) for at, by in aborted]
    told = part(
        partition_index=partition,
        error_code=error_code,
        high_watermark=bound,
        last_stable_offset=bound,
        log_start_offset=0,
        aborted_transactions=gone,
        preferred_read_replica=-1,
        records=b"".join(kept),
    )
    return _answered([topic(topic="t", partitions=[told])], throttle_ms)


def throttled(throttle_ms: int = 100) -> FetchResponse:
    """A quota is used up: Kafka's own answer then has no topics, and no error."""
    return _answered([], throttle_ms)


def failed(error_code: int) -> FetchResponse:
    """The whole request."""
    return _answered([], 0, error_code)


def _answered(responses: list[Any], throttle_ms: int, error_code: int = 0) -> FetchResponse:
    return FetchResponse(throttle_time_ms=throttle_ms, error_code=error_code, session_id=0, responses=responses)


def with_policy(policy: str) -> SimpleNamespace:
    """The answer to who asks for the topic's configuration."""
    entry = SimpleNamespace(name="cleanup.policy", value=policy)
    return SimpleNamespace(results=[said(resource_name="t", configs=[entry])])
