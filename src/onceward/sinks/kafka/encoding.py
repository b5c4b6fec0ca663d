"""From Arrow tables of Kafka rows to record batches with an address. Runs on the driver and in tasks alike."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from onceward.epoch.outcome import PartitionOutcome, TopicPartition
from onceward.errors import InvalidRows, TopicUnusable
from onceward.kafka.partitioning import partitions
from onceward.kafka.records import Columns, Compression, EncodedBatch, encode
from onceward.kafka.wire import Wire

HASH: Final = "onceward_hash"  # the column that `rows.py` adds
# Where we may not ask for the limit (DescribeConfigs): batches are under Kafka's default all the same, and whether it
# takes a record that is larger alone the broker says. What it refuses ends the epoch, and nothing is lost.
UNKNOWN_LIMIT: Final = 100 << 20  # the largest request that a broker takes (socket.request.max.bytes)
BODY: Final = "onceward_body"  # in place of a value: key and value as they stand in a record that is copied


@dataclass(frozen=True, slots=True)
class Topic:
    """What must be known of a topic to write to it."""

    partitions: int
    max_message_bytes: int


@dataclass(slots=True)
class Catalog:
    """The topics of an epoch, looked up once each."""

    topics: dict[str, Topic] = field(default_factory=dict)

    def look_up(self, wire: Wire, names: Iterable[str]) -> None:
        """Learn the topics that are not known yet; a missing one is an error that says what to do."""
        missing = sorted(set(names) - set(self.topics))
        if not missing:
            return
        leaders, settings = wire.topics(missing), wire.topic_settings(missing)
        for name in missing:
            if name not in leaders or name not in settings:
                raise TopicUnusable(
                    f"topic {name!r} does not exist at {wire.cluster.bootstrap}; make it before the pipeline writes "
                    "to it (Onceward makes no topics by itself: partitions and retention are yours to choose)"
                )
            limit = int(settings[name].get("max.message.bytes", UNKNOWN_LIMIT))
            self.topics[name] = Topic(len(leaders[name]), limit)


@dataclass(slots=True)
class Encoder:
    """Encodes tables for one epoch."""

    default_topic: str | None
    compression: Compression
    catalog: Catalog
    wire: Wire

    def encode(self, table: pa.Table) -> Iterator[tuple[TopicPartition, EncodedBatch]]:
        """Record batches, each with the partition it belongs to."""
        places, routes, hashes = self._route(table)
        columns = _columns(table)
        caps = {route: self.catalog.topics[place.topic].max_message_bytes for route, place in places.items()}
        batches = encode(
            columns,
            routes,
            hashes,
            compression=self.compression,
            max_batch_bytes=caps,
            timestamp_ms=time.time_ns() // 1_000_000,
            name_of=lambda route: f"topic {places[route].topic!r}, partition {places[route].partition}",
        )
        for batch in batches:
            yield places[batch.route], batch

    def digest(self, table: pa.Table) -> Iterator[tuple[TopicPartition, PartitionOutcome]]:
        """Counts and digests per partition, without encoding anything."""
        places, routes, hashes = self._route(table)
        order = np.argsort(routes, kind="stable")
        edges = np.flatnonzero(np.diff(routes[order], prepend=-1))
        sums = np.add.reduceat(hashes.view(np.uint64)[order], edges) if len(edges) else edges
        counts = np.diff(edges, append=len(order))
        for edge, total, count in zip(edges, sums, counts, strict=True):
            yield places[int(routes[order[edge]])], PartitionOutcome(int(count), int(total))

    def _route(self, table: pa.Table) -> tuple[dict[int, TopicPartition], NDArray[np.int32], NDArray[np.int64]]:
        """Number each row's topic and partition."""
        hashes = table.column(HASH).combine_chunks().to_numpy(zero_copy_only=False)
        places: dict[int, TopicPartition] = {}
        routes = np.empty(len(table), np.int32)
        base = 0
        for name, rows in self._by_topic(table):
            self.catalog.look_up(self.wire, [name])
            count = self.catalog.topics[name].partitions
            part = table if rows is None else table.take(rows)
            chosen = self._partitions(part, hashes if rows is None else hashes[rows], name, count)
            routes[slice(None) if rows is None else rows] = chosen + base
            places.update({base + index: TopicPartition(name, index) for index in range(count)})
            base += count
        return places, routes, hashes

    def _by_topic(self, table: pa.Table) -> Iterator[tuple[str, NDArray[np.int64] | None]]:
        """Each topic with its row numbers; None stands for all rows."""
        column = _column(table, "topic")
        if column is None or column.null_count == len(column):
            if len(table):
                yield self._require_default(), None
            return
        if column.null_count:
            column = pc.fill_null(column, self._require_default())
        encoded = column.combine_chunks().dictionary_encode()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        numbers = encoded.indices.to_numpy()
        for number, name in enumerate(encoded.dictionary.to_pylist()):
            yield name, None if len(encoded.dictionary) == 1 else np.flatnonzero(numbers == number)

    def _require_default(self) -> str:
        if self.default_topic is None:
            raise InvalidRows(
                "a row has no topic and the sink has none: fill the topic column or give KafkaSink(topic=...)"
            )
        return self.default_topic

    @staticmethod
    def _partitions(table: pa.Table, hashes: NDArray[np.int64], topic: str, count: int) -> NDArray[np.int32]:
        """The `partition` column where it says something, else by key, else by the row's hash."""
        explicit = _column(table, "partition")
        if explicit is None or explicit.null_count == len(explicit):
            return _by_key(table, hashes, count)
        chosen = explicit.fill_null(-1).combine_chunks().to_numpy(zero_copy_only=False)
        if explicit.null_count:
            chosen = np.where(explicit.is_null().to_numpy(), _by_key(table, hashes, count), chosen)
        if chosen.min(initial=0) < 0 or chosen.max(initial=0) >= count:
            worst = int(chosen.max(initial=0)) if chosen.max(initial=0) >= count else int(chosen.min(initial=0))
            raise TopicUnusable(
                f"a row names partition {worst} of topic {topic!r}, which has partitions 0 to {count - 1}; "
                "check the rows' partition column, or add partitions to the topic"
            )
        return np.asarray(chosen, np.int32)


def _columns(table: pa.Table) -> Columns:
    if (body := _column(table, BODY)) is not None:
        return Columns(body=body)
    return Columns(
        key=_column(table, "key"),
        value=table.column("value"),
        headers=_column(table, "headers"),
        timestamp=_column(table, "timestamp"),
    )


def _by_key(table: pa.Table, hashes: NDArray[np.int64], count: int) -> NDArray[np.int32]:
    key = _column(table, "key")
    keys = pa.nulls(len(table), pa.binary()) if key is None else key.combine_chunks()
    return partitions(keys, hashes, count)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    return table.column(name) if name in table.column_names else None
