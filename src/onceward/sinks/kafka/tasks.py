"""What runs inside Spark's Python workers: encode where the rows are, write where a partition is owned.

Errors of ours travel to the driver as rows, so that they keep their type; anything else fails the task, and
a failed or repeated task poisons the epoch's transaction (docs/decisions/0003).
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext

from onceward import crashpoints
from onceward.epoch.outcome import PartitionOutcome, Span, TopicPartition
from onceward.errors import OncewardError, revive
from onceward.kafka.ranges import RangeReader
from onceward.kafka.records import Compression, EncodedBatch
from onceward.kafka.sender import Sender
from onceward.kafka.transaction import Identity
from onceward.kafka.wire import Cluster, Wire
from onceward.secret import Exposure
from onceward.sinks.kafka.copying import Copy
from onceward.sinks.kafka.encoding import Catalog, Encoder
from onceward.sinks.kafka.turns import Turns
from onceward.sinks.parcel import Parcel

ENCODE_BYTES: Final = 8 << 20  # rows are gathered up to this before they are encoded: fewer, fuller batches

# What travels from encoders to writers: finished record batches with an address.
SHIPPED: Final = (
    "writer int, topic string, partition int, source int, number int, count int, digest long, payload binary"
)
SHIPPED_SCHEMA: Final = pa.schema(
    [
        ("writer", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("source", pa.int32()),
        ("number", pa.int32()),
        ("count", pa.int32()),
        ("digest", pa.int64()),
        ("payload", pa.binary()),
    ]
)
# What writers report: a line for each partition, or an error of ours.
REPORT: Final = (
    "task int, topic string, partition int, rows long, digest long, first long, end long, error string, message string"
)
REPORT_SCHEMA: Final = pa.schema(
    [
        ("task", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("rows", pa.int64()),
        ("digest", pa.int64()),
        ("first", pa.int64()),
        ("end", pa.int64()),
        ("error", pa.string()),
        ("message", pa.string()),
    ]
)
ERROR_TOPIC: Final = ""  # no topic has an empty name: a shipped row with it carries an error

_wires: dict[tuple[str, tuple[tuple[str, str], ...]], Wire] = {}


class TaskRepeated(Exception):
    """Spark runs this task a second time: its records may already be in the transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """Everything a task needs to know of the epoch. Small: every task reads it, from a parcel."""

    epoch: int
    cluster: Cluster
    transactional_id: str | None
    identity: Identity
    default_topic: str | None
    compression: Compression
    catalog: Catalog
    writers: int
    turns: Turns | None = None  # of tasks that share a machine
    copy: Copy | None = None  # what tasks read themselves, in place of Spark's rows

    @property
    def exposure(self) -> Exposure:
        """What somebody who reads it learns of secrets."""
        return self.cluster.exposure

    def wire(self) -> Wire:
        """To the sink's cluster."""
        return wire_to(self.cluster)

    def tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """A task's rows, as much as is encoded at a time; of a copy Spark gives the numbers of ranges."""
        return _gather(batches if self.copy is None else self._copied(self.copy, batches))

    @staticmethod
    def _copied(copy: Copy, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        return copy.read(RangeReader(wire_to(copy.cluster)), numbers)

    def encoder(self) -> Encoder:
        """An encoder over this worker's connections."""
        return Encoder(self.default_topic, self.compression, self.catalog, self.wire())

    def sender(self) -> Sender:
        """A sender under the epoch's identity."""
        return Sender(self.wire(), self.identity, self.transactional_id)


def wire_to(cluster: Cluster) -> Wire:
    """This worker process's connections, kept from epoch to epoch."""
    key = (cluster.bootstrap, tuple(sorted(cluster.settings.items())))
    return _wires.setdefault(key, Wire(cluster))


def encode_rows(parcel: Parcel[Work], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """First stage: rows in, record batches out."""
    source, number = _task_number(), 0
    try:
        work = parcel.open()
        encoder = work.encoder()
        for table in work.tables(batches):
            rows = []
            for place, batch in encoder.encode(table):
                writer = (zlib.crc32(place.topic.encode()) + place.partition) % work.writers
                rows.append((writer, *place, source, number, batch.count, _signed(batch.digest), batch.payload))
                number += 1
            yield _record_batch(rows, SHIPPED_SCHEMA)
    except OncewardError as error:
        text = f"{type(error).__name__}\n{error}".encode()
        yield _record_batch([(0, ERROR_TOPIC, 0, source, number, 0, 0, text)], SHIPPED_SCHEMA)


def write_batches(parcel: Parcel[Work], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Second stage: the only writer of its partitions sends what the encoders made."""
    _require_first_attempt()
    yield from _report(_write_shipped(parcel, batches))


def encode_and_write(parcel: Parcel[Work], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Both stages in one task, where each partition's rows are in one task already (`preserve`)."""
    _require_first_attempt()

    def written() -> Iterator[tuple[TopicPartition, PartitionOutcome]]:
        work = parcel.open()
        encoder = work.encoder()
        yield from _send(work, (pair for table in work.tables(batches) for pair in encoder.encode(table)))

    yield from _report(written())


def encode_and_write_in_turns(parcel: Parcel[Work], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Both stages in one task, where tasks share a machine: several write to a partition, one after the other."""
    _require_first_attempt()

    def written() -> Iterator[tuple[TopicPartition, PartitionOutcome]]:
        work = parcel.open()
        assert work.turns is not None
        encoder, sender = work.encoder(), work.sender()
        spans: Mapping[TopicPartition, Span] = {}
        for table in work.tables(batches):
            encoded = list(encoder.encode(table))
            spans = send_in_turn(work.turns, sender, encoded, work.epoch)
            yield from ((place, PartitionOutcome(batch.count, batch.digest)) for place, batch in encoded)
        yield from where(spans)

    yield from _report(written())


def send_in_turn(
    turns: Turns, sender: Sender, encoded: Sequence[tuple[TopicPartition, EncodedBatch]], epoch: int
) -> Mapping[TopicPartition, Span]:
    """Goes on where another task has ended, and tells where it has ended itself, once all is acknowledged."""
    with turns.at({place for place, _ in encoded}) as sequences:
        for place, sequence in sequences.items():
            sender.go_on(place, sequence)
        for place, batch in encoded:
            sender.send(place, batch.payload, batch.count)
        spans = sender.flush()
        if crashpoints.armed("task-writing", epoch):
            crashpoints.reach("task-writing", epoch)
        sequences.update({place: sender.next_sequence(place) for place in sequences})
    return spans


def digest_rows(parcel: Parcel[Work], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A replay: run the rows, write nothing."""

    def digests() -> Iterator[tuple[TopicPartition, PartitionOutcome]]:
        work = parcel.open()
        encoder = work.encoder()
        for table in work.tables(batches):
            yield from encoder.digest(table)

    yield from _report(digests())


def _write_shipped(
    parcel: Parcel[Work], batches: Iterator[pa.RecordBatch]
) -> Iterator[tuple[TopicPartition, PartitionOutcome]]:
    work = parcel.open()
    last: dict[tuple[int, TopicPartition], int] = {}

    def shipped() -> Iterator[tuple[TopicPartition, EncodedBatch]]:
        for rows in batches:
            for row in rows.to_pylist():
                if row["topic"] == ERROR_TOPIC:
                    raise revive(*row["payload"].decode().split("\n", 1))
                place = TopicPartition(row["topic"], row["partition"])
                # A shuffle keeps the order of one source's rows; the guarantee of order hangs on it.
                if last.get((row["source"], place), -1) >= row["number"]:
                    raise AssertionError(f"{place}: record batches of task {row['source']} arrived out of order")
                last[row["source"], place] = row["number"]
                yield place, EncodedBatch(0, row["count"], row["digest"], row["payload"])

    yield from _send(work, shipped())


def _send(
    work: Work, encoded: Iterable[tuple[TopicPartition, EncodedBatch]]
) -> Iterator[tuple[TopicPartition, PartitionOutcome]]:
    sender = work.sender()
    written: list[tuple[TopicPartition, PartitionOutcome]] = []
    for place, batch in encoded:
        sender.send(place, batch.payload, batch.count)
        written.append((place, PartitionOutcome(batch.count, batch.digest)))
        if crashpoints.armed("task-writing", work.epoch):
            sender.flush()
            crashpoints.reach("task-writing", work.epoch)
    yield from written
    yield from where(sender.flush())


def where(spans: Mapping[TopicPartition, Span]) -> Iterator[tuple[TopicPartition, PartitionOutcome]]:
    """Where the records are, as a part of an outcome that has no rows of its own."""
    for place, span in spans.items():
        yield place, PartitionOutcome(0, 0, span)


def _report(outcomes: Iterable[tuple[TopicPartition, PartitionOutcome]]) -> Iterator[pa.RecordBatch]:
    task, totals = _task_number(), dict[TopicPartition, PartitionOutcome]()
    try:
        for place, part in outcomes:
            totals[place] = totals[place] + part if place in totals else part
    except OncewardError as error:
        yield _record_batch([(task, "", 0, 0, 0, None, None, type(error).__name__, str(error))], REPORT_SCHEMA)
        return
    rows = [
        (task, *place, part.rows, _signed(part.digest), *(part.span or (None, None)), None, None)
        for place, part in totals.items()
    ]
    yield _record_batch(rows, REPORT_SCHEMA)


def _gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= ENCODE_BYTES:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)


def _record_batch(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _signed(digest: int) -> int:
    digest %= 1 << 64
    return digest - (1 << 64) if digest >= 1 << 63 else digest


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise AssertionError("this runs inside a Spark task")
    return context


def _task_number() -> int:
    return _context().partitionId()


def _require_first_attempt() -> None:
    attempt = _context().attemptNumber()
    if attempt > 0:
        raise TaskRepeated(
            f"task {_task_number()} is at attempt {attempt}: its records may already be in the transaction, so the "
            "epoch is aborted and redone under a new producer epoch"
        )
