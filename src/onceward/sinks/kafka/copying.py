"""Records that are copied as they are: read where they are written, and never made rows of Spark.

Making a row of each record and Arrow columns of the rows takes two thirds of the time of a copy. Where a query only
takes Kafka's own columns over, an epoch's rows are known without it: they are the records of the epoch's ranges, which
Spark has planned and the checkpoint holds. The hash of each is the one that Spark computes (docs/decisions/0023).
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from onceward.epoch.contract import EpochContext
from onceward.errors import BrokerRefused, PartitionSilent
from onceward.events import logger
from onceward.kafka.decoding import Records
from onceward.kafka.ranges import Range, RangeReader
from onceward.kafka.row_hashes import first_flags, hashed_bytes, hashed_flags, hashed_ints
from onceward.kafka.topics import compacted
from onceward.kafka.wire import Cluster, Wire
from onceward.sinks.kafka.encoding import BODY, HASH
from onceward.sinks.kafka.functions import CopyFailed, Function

MAY_FAIL: Final = 3  # epochs in a row; then there is something in the records that Spark has to look at
SPARK_READS: Final = 100  # epochs then, until it is tried again: what was in the way may be gone
Apply = Callable[[pa.BinaryArray], pa.BinaryArray]
COPIED: Final = (frozenset({"key", "value"}), frozenset({"key", "value", "partition"}))  # columns that can be

log = logger("onceward.kafka")


@dataclass(frozen=True, slots=True)
class Copy:
    """The records of one epoch."""

    cluster: Cluster  # where they are read
    ranges: tuple[Range, ...]
    with_partition: bool  # whether a record keeps its partition's number
    function: Function | None = None  # of the value

    @property
    def schema(self) -> pa.Schema:
        """Of what is read."""
        content = BODY if self.function is None else "value"
        columns = [("key", pa.binary()), (content, pa.binary()), (HASH, pa.uint64())]
        return pa.schema([*columns, ("partition", pa.int32())] if self.with_partition else columns)

    def read(self, reader: RangeReader, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Some of the ranges, one after the other."""
        apply = self.function.ready() if self.function is not None else None
        try:
            for wanted, records in reader.read(self.ranges[number] for number in numbers):
                yield self._columns(wanted.place.partition, records, apply)
        except (BrokerRefused, PartitionSilent) as error:
            raise CopyFailed(f"{error}; the epoch is redone, and Spark reads its records") from error

    def table(self, reader: RangeReader, most_bytes: int) -> pa.Table | None:
        """All of them, unless they turn out to be too large to be held at once."""
        found, size = [], 0
        for batch in self.read(reader, range(len(self.ranges))):
            found.append(batch)
            size += batch.nbytes
            if size > most_bytes:
                return None
        return pa.Table.from_batches(found, self.schema)

    def _columns(self, partition: int, records: Records, apply: Apply | None) -> pa.RecordBatch:
        """As Spark hashes a row of these columns (rows.py): before a key and a value, whether it is null."""
        value = records.value if apply is None else apply(records.value)
        hashes = hashed_bytes(records.key, first_flags(_missing(records.key)))
        hashes = hashed_bytes(value, hashed_flags(_missing(value), hashes))
        columns = [records.key, records.body if apply is None else value]
        if not self.with_partition:
            return pa.RecordBatch.from_arrays([*columns, pa.array(hashes)], schema=self.schema)
        places = np.full(len(records), partition, np.int32)
        return pa.RecordBatch.from_arrays(
            [*columns, pa.array(hashed_ints(places, hashes)), pa.array(places)], schema=self.schema
        )


def _missing(column: pa.BinaryArray) -> NDArray[np.bool_]:
    missing: NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return missing


@dataclass(frozen=True, slots=True)
class Copied:
    """What a query copies, whichever records those are."""

    cluster: Cluster
    with_partition: bool
    function: Function | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an epoch's records are."""

    copied: Copied
    counted: Callable[[int], object]  # told how many records an epoch has read past Spark

    def copy(self, context: EpochContext) -> Copy | None:
        """None unless the epoch's ranges are beyond doubt: then Spark reads them, or says what is wrong."""
        begins = context.begins
        if begins is None:
            return None
        ranges = [Range(place, begins.get(place, 0), end) for place, end in sorted(context.positions.items())]
        if any(it.end < it.start for it in ranges) or sum(it.end - it.start for it in ranges) != context.input_rows:
            return None
        copied = self.copied
        there = tuple(it for it in ranges if it.end > it.start)
        return Copy(copied.cluster, there, copied.with_partition, copied.function)


class Copies:
    """Of one sink: how their records are reached from the driver, and whether they go well."""

    def __init__(self, cluster: Cluster, wire: Wire, clock: Callable[[], float] = time.monotonic) -> None:
        """The sink's own; a source in another cluster gets connections of its own."""
        self._cluster, self._wire, self._clock = cluster, wire, clock
        self._reader: RangeReader | None = None
        self._compacted: dict[str, bool] = {}  # by topic; asked once, and after each failure
        self.failed = 0  # one after the other
        self.left_to_spark = 0  # epochs from now on

    def of(self, origin: Origin | None, context: EpochContext) -> Copy | None:
        """A second try lets Spark read the records, which may know better; so do all, where copies keep failing."""
        if origin is None or context.attempt > 1:
            return None
        if self.left_to_spark:
            self.left_to_spark -= 1
            return None
        copy = origin.copy(context)
        return self._with_policies(copy) if copy is not None else None

    @contextmanager
    def tried(self) -> Iterator[None]:
        """A copy is made inside of the block."""
        try:
            yield
        except Exception as error:
            self._compacted.clear()
            self.failed += 1
            if self.failed >= MAY_FAIL:
                self._give_up(error)
            raise
        self.failed = 0

    def reader(self, copy: Copy) -> RangeReader:
        """For the driver."""
        if self._reader is None:
            wire = self._wire if copy.cluster == self._cluster else Wire(copy.cluster)
            self._reader = RangeReader(wire, self._clock)
        return self._reader

    def close(self) -> None:
        """The sink's own connections are its own."""
        if self._reader is not None and self._reader.wire is not self._wire:
            self._reader.wire.close()

    def _with_policies(self, copy: Copy) -> Copy:
        """Whether offsets may be missing is asked here, so that tasks need not ask, each for itself."""
        topics = {it.place.topic for it in copy.ranges}
        if unknown := topics - self._compacted.keys():
            found = compacted(self.reader(copy).wire, unknown)
            self._compacted |= {topic: topic in found for topic in unknown}
        return replace(
            copy, ranges=tuple(replace(it, is_compacted=self._compacted[it.place.topic]) for it in copy.ranges)
        )

    def _give_up(self, error: Exception) -> None:
        self.left_to_spark = SPARK_READS
        reason = str(error) or type(error).__name__
        log.warning(
            "%d epochs in a row could not be copied past Spark, which reads the next %d: %s",
            self.failed,
            SPARK_READS,
            reason,
            extra={"event": "copying_paused", "epochs": SPARK_READS, "reason": reason},
        )
