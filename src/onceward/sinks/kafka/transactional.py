"""What a Kafka sink is without an engine: identity, marker and decision over one transaction per epoch.

A Kafka transaction cannot stay prepared, so its EndTxn is the decision for every sink of the epoch: `pre_commit` only
sums up, and `decide` does the rest. How rows become records is a subclass's business (`sink.py`; the simulation has
another one).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from onceward.epoch.contract import Committable, DecidingSink, EpochContext, LastCommit, Owner, Verdict
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.errors import BrokerUnreachable, ConfigurationError, MarkerMissing, PipelineFenced
from onceward.kafka.requests import Committed
from onceward.kafka.transaction import EpochTransaction, Identity, State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import Wire
from onceward.sinks.kafka.boundaries import Boundaries

MARKER_S: Final = 60.0  # until a marker that was committed can be read
POLL_S: Final = 0.02
MARKER_TRIES: Final = 3  # of a marker alone: a transaction without records has no reason to time out


class TransactionalKafka(DecidingSink):
    """The half that decides. `topic`: a place for the marker where the sources' own topics are in another cluster."""

    transactor_kind: type[Transactor] = Transactor

    def __init__(
        self,
        wire: Wire,
        topic: str | None,
        transaction_timeout_ms: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.wire = wire
        self.topic = topic
        self.transaction_timeout_ms = transaction_timeout_ms
        self._clock, self._sleep = clock, sleep
        self.transactor: Transactor | None = None
        self.transaction: EpochTransaction | None = None
        self._outcome = Outcome()
        self.boundaries = Boundaries()
        self._present: dict[str, int] = {}  # topics of this cluster that may carry the marker, and their partitions
        self._absent: set[str] = set()

    def open(self, owner: Owner) -> None:
        """Fence every older driver of this pipeline. Whatever an earlier start of this object left is forgotten."""
        super().open(owner)
        self.transaction, self._outcome = None, Outcome()
        self._present, self._absent = {}, set()
        self.transactor = self._transactor(owner.pipeline)
        self.fence()
        self.boundaries = Boundaries()
        if self.topic is not None:
            self._learn([self.topic])

    def fence(self) -> None:
        """Take the transactional id over."""
        self._require_transactor().fence()

    def last_commit(self) -> LastCommit | None:
        """The marker that travelled with the last committed epoch."""
        return self._read(self._require_transactor().read_marker())

    def peek(self, pipeline: str) -> LastCommit | None:
        """The marker as it is now; an open transaction may still end either way."""
        return self._read(self._transactor(pipeline).read_marker(stable=False), pipeline)

    def write_marker(self, last: LastCommit) -> None:
        """A transaction that carries the marker and nothing else."""
        transactor = self._require_transactor()
        places = {**self._of_older_lineages(last.lineage), **self.marker_places(last.positions, last.epoch)}
        for _ in range(MARKER_TRIES):
            ended = transactor.commit(
                transactor.begin(last.epoch),
                positions=places,
                lineage=last.lineage,
                term=last.term,
                outcome=last.outcome,
            )
            if self._conclude(ended) is Verdict.COMMITTED:
                self._await_marker(last)
                return
        raise ConfigurationError(
            f"pipeline {self.owner.pipeline!r}: its marker timed out {MARKER_TRIES} times; transaction_timeout_ms="
            f"{self.transaction_timeout_ms} is too short for this cluster"
        )

    def begin(self, context: EpochContext) -> None:
        """Take the identity for this try. Kafka learns of the transaction with the first record."""
        self.transaction = self._require_transactor().begin(context.epoch)

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        """Everything is acknowledged by every replica in sync: that is the vote."""
        self.marker_places(context.positions, context.epoch)  # or an error, before anything is decided
        self._outcome = outcome
        if unknown := self.boundaries.to_ask(outcome):
            self._learn(unknown)
        return {**self.identified(), **self.boundaries.vote(outcome)}

    def decide(self, context: EpochContext, committable: Committable) -> Verdict:  # noqa: ARG002 - ours is open already
        """Marker, then EndTxn: every record of the epoch is visible at once, and the epoch is decided."""
        ended = self._require_transactor().commit(
            self._require_transaction(),
            positions=self.marker_places(context.positions, context.epoch),
            lineage=self.owner.lineage,
            term=self.owner.term,
            outcome=self._outcome,
        )
        return self._conclude(ended)

    def abort(self, context: EpochContext) -> None:  # noqa: ARG002 - the contract names the epoch
        """Nothing of this try is ever visible."""
        if self.transactor is not None and self.transaction is not None:
            self._conclude(self.transactor.abort(self.transaction))

    def identified(self) -> Committable:
        """The vote: under which identity the records are."""
        producer = self.identity
        return {"version": 1, "producer_id": producer.producer_id, "producer_epoch": producer.producer_epoch}

    @property
    def identity(self) -> Identity:
        """Under which this try's records travel."""
        return self._require_transaction().identity

    def marker_places(self, positions: Mapping[TopicPartition, int], epoch: int) -> Mapping[TopicPartition, int]:
        """Where the marker rides: on the sources' offsets, so that group-lag tools see how far the pipeline is.

        A source in another cluster, or one that is not Kafka, has no place here: then on the sink's own topic.
        """
        here = {place: offset for place, offset in positions.items() if self._is_here(place)}
        if here:
            return here
        if self.topic is not None:
            return {TopicPartition(self.topic, 0): max(epoch, 0)}
        raise ConfigurationError(
            "none of the pipeline's source topics is in the KafkaSink's cluster and the sink has no topic of its own, "
            "so there is no place for the marker that tells a restart what is committed; give KafkaSink(topic=...), "
            "rows may still name other topics"
        )

    def _of_older_lineages(self, lineage: str) -> Mapping[TopicPartition, int]:
        """Where markers stand that a new lineage's first one must replace, on whichever partitions they are.

        Epochs of another lineage may have higher numbers, and after a reset the sources may be other topics: an older
        marker that stayed beside the new one would be taken for the newest.
        """
        held = self._require_transactor().read_marker()
        if held.marker is None or held.marker.lineage == lineage:
            return {}
        return {place: offset for place, offset in held.marked.items() if self._is_here(place)}

    def _learn(self, topics: Iterable[str]) -> None:
        self.boundaries.learn(self.wire.topic_ids(topics), self.wire.ends(topics))

    def _await_marker(self, last: LastCommit) -> None:
        """EndTxn answers before its end markers are written, and a group's first offsets are not listed until then."""
        deadline, pause_s = self._clock() + MARKER_S, POLL_S
        while True:
            marker = self._require_transactor().read_marker().marker
            if marker is not None and (marker.lineage != last.lineage or marker.epoch >= last.epoch):
                return  # ours, or already that of a successor
            if self._clock() > deadline:
                raise BrokerUnreachable(
                    f"pipeline {self.owner.pipeline!r}: its marker was committed and cannot be read after "
                    f"{MARKER_S:.0f} s; check the brokers that hold __consumer_offsets"
                )
            self._sleep(pause_s)
            pause_s = min(2 * pause_s, 1.0)

    def _is_here(self, place: TopicPartition) -> bool:
        if place.topic not in self._present and place.topic not in self._absent:
            found = self.wire.topics([place.topic])
            if place.topic in found:
                self._present[place.topic] = len(found[place.topic])
            else:
                self._absent.add(place.topic)
        return place.partition < self._present.get(place.topic, 0)

    def _transactor(self, pipeline: str) -> Transactor:
        return self.transactor_kind(
            self.wire, pipeline, self.transaction_timeout_ms, clock=self._clock, sleep=self._sleep
        )

    def _read(self, found: Committed, pipeline: str | None = None) -> LastCommit | None:
        marker = found.marker
        if marker is None and found.positions:
            held = ", ".join(f"{place} at {offset}" for place, offset in sorted(found.positions.items())[:4])
            raise MarkerMissing(
                f"the group {pipeline or self.owner.pipeline!r} has offsets ({held}) and none of them carries a "
                "pipeline's marker: another consumer commits to this group. A pipeline's name is its group, and "
                "nobody else may use it. Give the pipeline or the consumer another name; or, if the pipeline has "
                "committed before, stop that consumer, compare the output topics and start with --trust-ledger."
            )
        if marker is None:
            return None
        return LastCommit(
            lineage=marker.lineage,
            epoch=marker.epoch,
            term=marker.term,
            outcome=marker.outcome if marker.digest else None,
            positions=found.positions,
        )

    def _conclude(self, ended: EpochTransaction) -> Verdict:
        self.transaction = None
        if ended.state is State.FENCED:
            raise PipelineFenced(
                f"pipeline {self.owner.pipeline!r}, epoch {ended.epoch}: a newer driver has taken over its "
                "transactional id. This one stops; its open records are never visible, and the newer driver goes on "
                "from the last commit."
            )
        return Verdict.COMMITTED if ended.state is State.COMMITTED else Verdict.ABORTED

    def _require_transactor(self) -> Transactor:
        if self.transactor is None:
            raise AssertionError("open() comes first")
        return self.transactor

    def _require_transaction(self) -> EpochTransaction:
        if self.transaction is None:
            raise AssertionError("begin() comes first")
        return self.transaction
