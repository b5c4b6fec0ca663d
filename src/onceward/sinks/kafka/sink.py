"""KafkaSink: rows become records of one Kafka transaction per epoch, here or in Spark's tasks.

Who holds the transaction and how it ends is `transactional.py`.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from onceward import crashpoints
from onceward.epoch.contract import Committable, EpochContext, Guarantee, LastCommit, Owner, Verdict
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.errors import ConfigurationError, InvalidRows
from onceward.kafka import copies
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.records import Compression
from onceward.kafka.sender import Sender
from onceward.kafka.transaction import Identity
from onceward.kafka.wire import Cluster, Wire
from onceward.sinks.kafka import jobs
from onceward.sinks.kafka.copying import Copies, Copy
from onceward.sinks.kafka.encoding import HASH, Catalog, Encoder
from onceward.sinks.kafka.rows import KafkaRows, Shaped, ShapedBatch
from onceward.sinks.kafka.tasks import Work, where
from onceward.sinks.kafka.transactional import TransactionalKafka
from onceward.sinks.kafka.unmeasured import can_be_unmeasured, unmeasured, was_too_large
from onceward.sinks.parcel import is_local
from onceward.sinks.rows import SMALL_EPOCH_BYTES, Size

TRANSACTION_TIMEOUT_MS: Final = 60_000  # Kafka's own default; a longer epoch is redone with twice as much
Way = Callable[[DataFrame, Work], Outcome]  # to write rows over tasks
LARGER: Final = 4  # times a small epoch: what is taken for one may turn out so, and is held by the driver
CATALOG_AGE_S: Final = 10.0  # how long a topic's partition count and limits are taken for granted

NOBODY: Final = Identity(-1, -1)  # a replay writes nothing


class KafkaSink(TransactionalKafka):
    """Writes rows with Spark's Kafka columns: key, value, headers, topic, partition (and timestamp).

    topic: where rows without a topic column go.
    partitioning: "key" as Java's producer does it; "preserve" when each output partition's rows are in one
        task already and carry a partition column, as in a map over a topic with as many partitions.
    dead_letters: a topic for records of the input that were skipped (`onceward skip --dead-letters`).
    small_epoch_bytes: up to this size an epoch is collected and written by the driver itself; 0 never.
    settings: Kafka client settings for security, by Kafka's names.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        topic: str | None = None,
        compression: str = "none",
        partitioning: Literal["key", "preserve"] = "key",
        transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        small_epoch_bytes: int = SMALL_EPOCH_BYTES,
        dead_letters: str | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = Cluster(bootstrap, dict(settings or {}))
        copy = copies.current()
        if copy is not None and topic is not None:
            topic = copy.name(topic)
        super().__init__(Wire(self.cluster), topic, transaction_timeout_ms)
        self.partitioning = partitioning
        self._size = Size(small_epoch_bytes)
        try:
            self.compression = Compression(compression)
        except ValueError:
            known = ", ".join(Compression)
            raise ConfigurationError(f"compression {compression!r} is not known; choose one of {known}") from None
        if partitioning not in ("key", "preserve"):
            raise ConfigurationError(f"partitioning {partitioning!r} is not known; choose 'key' or 'preserve'")
        self._rows = KafkaRows(topic, copies.copy_prefix())
        self._catalog = Catalog()
        self._catalog_read_at = 0.0
        self._leaders: dict[str, list[int]] = {}  # as old as the catalog
        self._copies = Copies(self.cluster, self.wire)
        self._large_rows = False  # seen
        self._idempotent: IdempotentProducer | None = None
        self.dead_letters = dead_letters
        self._copy_prefix = copies.copy_prefix()

    def __repr__(self) -> str:
        return f"KafkaSink({self.cluster.bootstrap!r}, topic={self.topic!r})"

    def writes_dead_letters(self, topic: str) -> None:
        """Rows will name this topic: it is looked for when the pipeline starts, and skipped records go there too."""
        if self.dead_letters not in {None, topic}:
            raise ConfigurationError(
                f"the sink's topic for dead letters is {self.dead_letters!r}, and its rows name {topic!r}; say one"
            )
        self.dead_letters = topic

    @property
    def dead_letter_topics(self) -> list[str]:
        """None or one; of a copy, its own."""
        return [self._copy_prefix + self.dead_letters] if self.dead_letters is not None else []

    @property
    def named_topics(self) -> list[str]:
        """Those that are known before the first row."""
        return [*([self.topic] if self.topic is not None else []), *self.dead_letter_topics]

    def open(self, owner: Owner) -> None:
        """Check the cluster and the topics, then fence every older driver of this pipeline."""
        self._idempotent = None
        self.wire.require_transactions()
        if self.named_topics:
            self._catalog.look_up(self.wire, self.named_topics)
            self._catalog_read_at = time.monotonic()
        if owner.guarantee is Guarantee.EXACTLY_ONCE:
            super().open(owner)
        else:
            self.owner = owner
            self._idempotent = IdempotentProducer(self.wire, owner.pipeline)

    def last_commit(self) -> LastCommit | None:
        """The marker, where there is one: weaker guarantees have none."""
        return super().last_commit() if self._idempotent is None else None

    def begin(self, context: EpochContext) -> None:
        """Take the identity for this try. Under at-most-once the input is given up before it is written."""
        if self._idempotent is None:
            super().begin(context)
            return
        if self.owner.guarantee is Guarantee.AT_MOST_ONCE:
            self._idempotent.commit_positions(context.positions)
        self._idempotent.begin()

    def shaped(self, source: DataFrame) -> tuple[DataFrame, Shaped]:
        """A query that gives this sink's own columns for the source's rows, and what its batches look like."""
        frame, shape = self._rows.ahead(source)
        self._require_partition(shape.columns)
        return frame, shape

    def write(self, context: EpochContext, rows: DataFrame | ShapedBatch) -> Outcome:
        """One Spark job; afterwards every record is acknowledged and none is visible."""
        prepared = self._prepared(rows)
        if self.partitioning == "preserve" and not isinstance(rows, ShapedBatch):
            self._require_partition(prepared.columns)
        self._refresh_catalog(force=context.attempt > 1)
        if isinstance(rows, ShapedBatch) and (outcome := self._copied(rows, context)) is not None:
            return outcome
        # A second try goes over tasks: the rows may have been too many to collect.
        if (table := self._collected(prepared, rows, context)) is not None:
            return self._write_here(context, table)
        way, work = self._way(prepared.sparkSession, context), self._work(context, self.identity)
        if isinstance(rows, ShapedBatch) and self._can_be_unmeasured(prepared, way):
            way = partial(self._write_unmeasured, way)
        return self._write_over_tasks(context, prepared, work, way)

    def _copied(self, rows: ShapedBatch, context: EpochContext) -> Outcome | None:
        """Of records that are taken over as they are; None where Spark is to read them."""
        copy, small = self._copies.of(rows.origin, context), self._size.is_small(context)
        if rows.origin is None or copy is None or (small and copy.function is not None):
            return None  # users' functions run in Spark's workers, never here
        with self._copies.tried():
            outcome = self._write_copied(context, rows.frame.sparkSession, copy, small=small)
        rows.origin.counted(outcome.rows)
        return outcome

    def _write_copied(self, context: EpochContext, spark: SparkSession, copy: Copy, *, small: bool) -> Outcome:
        """Spark's part is to run tasks, one for each range, or nothing at all where the epoch is small."""
        most = self._size.small_epoch_bytes * LARGER
        read = partial(copy.table, self._copies.reader(copy), most)
        if small and (table := self._size.read_here(context, read)) is not None:
            return self._write_here(context, table)
        numbers = spark.range(0, len(copy.ranges), 1, len(copy.ranges)).toDF("number")
        work = replace(self._work(context, self.identity), copy=copy)
        return self._write_over_tasks(context, numbers, work, self._way(spark, context))

    def _write_over_tasks(self, context: EpochContext, rows: DataFrame, work: Work, way: Way) -> Outcome:
        outcome = way(rows, work)
        self._size.learn_rows(context, outcome.rows)
        self._catalog.look_up(self.wire, {place.topic for place in outcome.partitions})
        return outcome

    def _can_be_unmeasured(self, rows: DataFrame, way: Way) -> bool:
        """Batches that the query has computed: Spark would put the look at a row's size below what computes the row."""
        return way is not jobs.write and not self._large_rows and can_be_unmeasured(rows.columns, [HASH])

    def _write_unmeasured(self, way: Way, rows: DataFrame, work: Work) -> Outcome:
        """A row that is too large for it is one of several, as a rule: from then on batches are measured."""
        try:
            with unmeasured(rows) as small:
                return way(small, work)
        except Exception as error:
            self._large_rows = was_too_large(error)
            raise

    def _way(self, spark: SparkSession, context: EpochContext) -> Way:
        """A second try takes the one that works everywhere."""
        if context.attempt > 1:
            return jobs.write
        if self.partitioning == "preserve":
            return jobs.write_preserved
        return jobs.write_in_turns if is_local(spark.sparkContext.master or "") else jobs.write

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        """The vote; without a transaction there is nothing to decide."""
        return super().pre_commit(context, outcome) if self._idempotent is None else self.identified()

    def decide(self, context: EpochContext, committable: Committable) -> Verdict:
        """Marker and EndTxn; under weaker guarantees the records are visible already, and the positions follow."""
        if self._idempotent is None:
            return super().decide(context, committable)
        if self.owner.guarantee is Guarantee.AT_LEAST_ONCE:
            self._idempotent.commit_positions(context.positions)
        return Verdict.COMMITTED

    @property
    def identity(self) -> Identity:
        """Of the transaction, or of the idempotent producer."""
        return super().identity if self._idempotent is None else self._idempotent.identity

    @property
    def computing_s(self) -> float:
        """Where the rows were collected first."""
        return self._size.computing_s

    def digest(self, context: EpochContext, rows: DataFrame | ShapedBatch) -> Outcome:
        """What the rows would write."""
        prepared = self._prepared(rows)
        if (table := self._collected(prepared, rows, context)) is not None:
            return Outcome.of(self._encoder().digest(table))
        return jobs.digest(prepared, self._work(context, NOBODY))

    def when_repeated(self) -> str:
        """Records cannot be taken back."""
        return "events that are read again are written again: readers see them twice unless you empty the topics first"

    def describe(self) -> Mapping[str, Any] | None:
        """Enough to find the marker; settings with credentials stay where they are."""
        if self.cluster.settings:
            return None
        return {
            "bootstrap": self.cluster.bootstrap,
            "topic": self.topic,
            "compression": self.compression.value,
            "partitioning": self.partitioning,
            "transaction_timeout_ms": self.transaction_timeout_ms,
            "small_epoch_bytes": self._size.small_epoch_bytes,
        }

    def close(self) -> None:
        """Close connections. An open transaction is aborted by the next start, or by its timeout."""
        self.wire.close()
        self._copies.close()

    def _prepared(self, rows: DataFrame | ShapedBatch) -> DataFrame:
        return rows.frame if isinstance(rows, ShapedBatch) else self._rows.of(rows)

    def _collected(self, prepared: DataFrame, rows: DataFrame | ShapedBatch, context: EpochContext) -> pa.Table | None:
        if isinstance(rows, ShapedBatch):
            return self._size.collect_shaped(prepared, rows.shape.schema, context)
        return self._size.collect(prepared, context)

    def _require_partition(self, columns: Collection[str]) -> None:
        if self.partitioning == "preserve" and "partition" not in columns:
            raise InvalidRows(
                "partitioning='preserve' needs the rows' own partition column; select it, or use partitioning='key'"
            )

    def _write_here(self, context: EpochContext, table: pa.Table) -> Outcome:
        """The short way: encode and send from the driver what was collected. Repeated tasks do no harm here."""
        sender = Sender(self.wire, self.identity, self._transactional_id(), self._leaders)
        parts: list[tuple[TopicPartition, PartitionOutcome]] = []
        for place, batch in self._encoder().encode(table):
            sender.send(place, batch.payload, batch.count)
            parts.append((place, PartitionOutcome(batch.count, batch.digest)))
            if crashpoints.armed("writing", context.epoch):
                sender.flush()
                crashpoints.reach("writing", context.epoch)
        return Outcome.of([*parts, *where(sender.flush())])

    def _encoder(self) -> Encoder:
        return Encoder(self.topic, self.compression, self._catalog, self.wire)

    def _work(self, context: EpochContext, identity: Identity) -> Work:
        return Work(
            epoch=context.epoch,
            cluster=self.cluster,
            transactional_id=self._transactional_id(),
            identity=identity,
            default_topic=self.topic,
            compression=self.compression,
            catalog=self._catalog,
            writers=self._writers(),
        )

    def _transactional_id(self) -> str | None:
        return self.owner.pipeline if self._idempotent is None else None

    def _writers(self) -> int:
        known = [topic.partitions for topic in self._catalog.topics.values()]
        return max(known, default=4)

    def _refresh_catalog(self, *, force: bool) -> None:
        """Topics may gain partitions or change limits while the pipeline runs."""
        now = time.monotonic()
        if force or now - self._catalog_read_at > CATALOG_AGE_S:
            before = self._catalog.topics
            names = {*before, *self.named_topics}
            self._catalog, self._leaders = Catalog(), {}
            self._catalog.look_up(self.wire, names)
            self._catalog_read_at = now
            for name, found in self._catalog.topics.items():
                if name in before and found.partitions != before[name].partitions:
                    self.boundaries.forget(name)
