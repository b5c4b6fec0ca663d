"""KafkaSink: the contract of a two-phase-commit sink over one Kafka transaction per epoch.

A Kafka transaction cannot stay prepared, so its EndTxn is the decision for every sink of the epoch: `pre_commit` only
sums up, and `decide` does the rest.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any, Final, Literal

from pyspark.sql import DataFrame

from onceward import crashpoints
from onceward.epoch.contract import (
    Committable,
    DecidingSink,
    EpochContext,
    Guarantee,
    LastCommit,
    Owner,
    Verdict,
)
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.errors import ConfigurationError, InvalidRows, PipelineFenced
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.records import Compression
from onceward.kafka.sender import Sender
from onceward.kafka.transaction import EpochTransaction, Identity, State
from onceward.kafka.transactor import Committed, Transactor
from onceward.kafka.wire import Cluster, Wire
from onceward.sinks.kafka import jobs
from onceward.sinks.kafka.encoding import Catalog, Encoder
from onceward.sinks.kafka.rows import KafkaRows
from onceward.sinks.kafka.tasks import Work
from onceward.sinks.rows import ASSUMED_ROW_BYTES, SMALL_EPOCH_BYTES, Size

TRANSACTION_TIMEOUT_MS: Final = 60_000  # Kafka's own default; a longer epoch is redone with twice as much
CATALOG_AGE_S: Final = 10.0  # how long a topic's partition count and limits are taken for granted

NOBODY: Final = Identity(-1, -1)  # a replay writes nothing

log = logging.getLogger("onceward.kafka")


class KafkaSink(DecidingSink):
    """Writes rows with Spark's Kafka columns: key, value, headers, topic, partition (and timestamp).

    topic: where rows without a topic column go.
    partitioning: "key" as Java's producer does it; "preserve" when each output partition's rows are in one
        task already and carry a partition column, as in a map over a topic with as many partitions.
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
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.cluster = Cluster(bootstrap, dict(settings or {}))
        self.topic = topic
        self.partitioning = partitioning
        self.transaction_timeout_ms = transaction_timeout_ms
        self._size = Size(small_epoch_bytes)
        try:
            self.compression = Compression(compression)
        except ValueError:
            known = ", ".join(Compression)
            raise ConfigurationError(f"compression {compression!r} is not known; choose one of {known}") from None
        if partitioning not in ("key", "preserve"):
            raise ConfigurationError(f"partitioning {partitioning!r} is not known; choose 'key' or 'preserve'")
        self._wire = Wire(self.cluster)
        self._rows = KafkaRows(topic)
        self._catalog = Catalog()
        self._catalog_read_at = 0.0
        self._outcome = Outcome()
        self._transactor: Transactor | None = None
        self._idempotent: IdempotentProducer | None = None
        self._transaction: EpochTransaction | None = None

    def __repr__(self) -> str:
        return f"KafkaSink({self.cluster.bootstrap!r}, topic={self.topic!r})"

    def open(self, owner: Owner) -> None:
        """Check the cluster and the topic, then fence every older driver of this pipeline."""
        super().open(owner)
        self._wire.require_transactions()
        if self.topic is not None:
            self._catalog.look_up(self._wire, [self.topic])
            self._catalog_read_at = time.monotonic()
        if owner.guarantee is Guarantee.EXACTLY_ONCE:
            self._transactor = Transactor(self._wire, owner.pipeline, self.transaction_timeout_ms)
            self._transactor.fence()
        else:
            self._idempotent = IdempotentProducer(self._wire, owner.pipeline)

    def last_commit(self) -> LastCommit | None:
        """The marker that travelled with the last committed epoch."""
        return _last_commit(self._transactor.read_marker()) if self._transactor is not None else None

    def peek(self, pipeline: str) -> LastCommit | None:
        """The marker as it is now; an open transaction may still end either way."""
        return _last_commit(Transactor(self._wire, pipeline, self.transaction_timeout_ms).read_marker())

    def begin(self, context: EpochContext) -> None:
        """Take the identity for this try. Kafka learns of the transaction with the first record."""
        if self._transactor is not None:
            self._transaction = self._transactor.begin(context.epoch)
        elif self._idempotent is not None:
            if self.owner.guarantee is Guarantee.AT_MOST_ONCE:
                self._idempotent.commit_positions(context.positions)  # the input is given up before it is written
            self._idempotent.begin()

    def write(self, context: EpochContext, rows: DataFrame) -> Outcome:
        """One Spark job; afterwards every record is acknowledged and none is visible."""
        prepared = self._rows.of(rows)
        preserve = self.partitioning == "preserve"
        if preserve and "partition" not in prepared.columns:
            raise InvalidRows(
                "partitioning='preserve' needs the rows' own partition column; select it, or use partitioning='key'"
            )
        self._refresh_catalog(force=context.attempt > 1)
        # A second try takes the long way with a shuffle: the rows may have been too many to collect, or two tasks
        # may have met on one partition.
        if context.attempt == 1 and self._size.is_small(context):
            return self._write_here(context, prepared)
        work = self._work(context, self._identity())
        outcome = (
            jobs.write_preserved(prepared, work) if preserve and context.attempt == 1 else jobs.write(prepared, work)
        )
        self._size.learn(context, outcome.rows * ASSUMED_ROW_BYTES)
        return outcome

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        """Everything is acknowledged by every replica in sync: that is the vote."""
        if self._transactor is not None and not self._marker_positions(context):
            raise ConfigurationError(
                "the pipeline has no Kafka source and its KafkaSink no topic, so there is no place for the marker that "
                "tells a restart what is out; give KafkaSink(topic=...), rows may still name other topics"
            )
        self._outcome = outcome
        producer = self._identity()
        return {"version": 1, "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}

    def decide(self, context: EpochContext, committable: Committable) -> Verdict:  # noqa: ARG002 - ours is open already
        """Marker, then EndTxn: every record of the epoch is visible at once, and the epoch is decided."""
        owner, outcome = self.owner, self._outcome
        positions = self._marker_positions(context)
        if self._transactor is None:
            if self._idempotent is not None and owner.guarantee is Guarantee.AT_LEAST_ONCE:
                self._idempotent.commit_positions(context.positions)
            return Verdict.COMMITTED
        ended = self._transactor.commit(
            self._require_transaction(), positions=positions, lineage=owner.lineage, term=owner.term, outcome=outcome
        )
        return self._conclude(ended)

    def abort(self, context: EpochContext) -> None:  # noqa: ARG002 - the contract names the epoch
        """Nothing of this try is ever visible."""
        if self._transactor is not None and self._transaction is not None:
            self._conclude(self._transactor.abort(self._transaction))

    def digest(self, context: EpochContext, rows: DataFrame) -> Outcome:
        """What the rows would put out."""
        prepared = self._rows.of(rows)
        if self._size.is_small(context):
            return Outcome.of(self._encoder().digest(prepared.toArrow()))
        return jobs.digest(prepared, self._work(context, NOBODY))

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
        self._wire.close()

    def _write_here(self, context: EpochContext, prepared: DataFrame) -> Outcome:
        """The short way: collect as Arrow, encode and send from the driver. Repeated tasks do no harm here."""
        table = prepared.toArrow()
        self._size.learn(context, table.nbytes)
        sender = Sender(self._wire, self._identity(), self._transactional_id())
        parts: list[tuple[TopicPartition, PartitionOutcome]] = []
        for place, batch in self._encoder().encode(table):
            sender.send(place, batch.payload, batch.count)
            parts.append((place, PartitionOutcome(batch.count, batch.digest)))
            if crashpoints.armed("writing", context.epoch):
                sender.flush()
                crashpoints.reach("writing", context.epoch)
        sender.flush()
        return Outcome.of(parts)

    def _encoder(self) -> Encoder:
        return Encoder(self.topic, self.compression, self._catalog, self._wire)

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
        return self.owner.pipeline if self._transactor is not None else None

    def _identity(self) -> Identity:
        if self._transaction is not None:
            return self._transaction.identity
        if self._idempotent is not None:
            return self._idempotent.identity
        raise AssertionError("begin() comes first")

    def _writers(self) -> int:
        known = [topic.partitions for topic in self._catalog.topics.values()]
        return max(known, default=4)

    def _refresh_catalog(self, *, force: bool) -> None:
        """Topics may gain partitions or change limits while the pipeline runs."""
        now = time.monotonic()
        if force or now - self._catalog_read_at > CATALOG_AGE_S:
            names = {*self._catalog.topics, *([self.topic] if self.topic is not None else [])}
            self._catalog = Catalog()
            self._catalog.look_up(self._wire, names)
            self._catalog_read_at = now

    def _marker_positions(self, context: EpochContext) -> Mapping[TopicPartition, int]:
        """Where the marker rides: on the source's offsets, or, without a Kafka source, on the output topic."""
        if context.positions or self.topic is None:
            return context.positions
        return {TopicPartition(self.topic, 0): context.epoch}

    def _conclude(self, ended: EpochTransaction) -> Verdict:
        self._transaction = None
        if ended.state is State.FENCED:
            raise PipelineFenced(
                f"pipeline {self.owner.pipeline!r}, epoch {ended.epoch}: a newer driver has taken over its "
                "transactional id. This one stops; its open records are never visible, and the newer driver goes on "
                "from the last commit."
            )
        return Verdict.COMMITTED if ended.state is State.COMMITTED else Verdict.ABORTED

    def _require_transaction(self) -> EpochTransaction:
        if self._transaction is None:
            raise AssertionError("begin() comes first")
        return self._transaction


def _last_commit(found: Committed) -> LastCommit | None:
    marker = found.marker
    if marker is None:
        return None
    return LastCommit(
        lineage=marker.lineage,
        epoch=marker.epoch,
        term=marker.term,
        outcome=marker.outcome,
        positions=found.positions,
    )
