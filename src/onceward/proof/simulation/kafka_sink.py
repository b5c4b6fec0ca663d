"""The Kafka sink of a simulated driver: the production transactor, and tasks that write partitions.

Follows `sinks/kafka/sink.py`, which needs pyspark; the sender's rule is the same: what is not acknowledged goes again,
with the same bytes and the same sequence, and a task that Spark repeats refuses to write.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from onceward.epoch.contract import Committable, DecidingSink, EpochContext, LastCommit, Owner, Verdict
from onceward.epoch.outcome import Outcome
from onceward.errors import PipelineFenced
from onceward.kafka.codes import Meaning, code
from onceward.kafka.sender import IdentityLost, SequenceBroken
from onceward.kafka.transaction import EpochTransaction, State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import AnswerLost
from onceward.proof.history import Row
from onceward.proof.simulation.broker import Place
from onceward.proof.simulation.engine import Batch, TaskLost, of_rows
from onceward.proof.simulation.wire import MemoryWire
from onceward.proof.simulation.world import World

TOPIC: Final = "out"
PARTITIONS: Final = 2
OUT_OF_ORDER: Final = 45
Produced = tuple[Place, int, list[Row]]


class SimulatedKafkaSink(DecidingSink):
    """One transaction per epoch."""

    def __init__(self, world: World, wire: MemoryWire, transactor: type[Transactor] = Transactor) -> None:
        self.world, self.wire = world, wire
        self._kind = transactor
        self.outcome = Outcome()
        self.transactor: Transactor
        self.transaction: EpochTransaction | None = None

    def open(self, owner: Owner) -> None:
        """Fence every older driver."""
        super().open(owner)
        self.transactor = self._kind(
            self.wire,  # type: ignore[arg-type]
            owner.pipeline,
            60_000,
            clock=self.world.time,
            sleep=self.world.sleep,
        )
        self.fence()

    def fence(self) -> None:
        """Take the transactional id over."""
        self.transactor.fence()

    def last_commit(self) -> LastCommit | None:
        """The marker."""
        found = self.transactor.read_marker()
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

    def peek(self, pipeline: str) -> LastCommit | None:  # noqa: ARG002 - nobody looks in a simulation
        """The marker as it is now."""
        return self.last_commit()

    def begin(self, context: EpochContext) -> None:
        """Take the identity."""
        self.transaction = self.transactor.begin(context.epoch)

    def write(self, context: EpochContext, rows: Batch) -> Outcome:
        """Each task is the only writer of its partitions; here they take turns."""
        made = rows.rows(self.owner.term, context.attempt)
        for _, batches in sorted(self.split(made).items()):
            self.run_task(batches)
        return of_rows(made, TOPIC, PARTITIONS)

    def split(self, rows: list[Row]) -> Mapping[int, list[Produced]]:
        """By task: its partitions' record batches, with their sequences."""
        tasks: dict[int, list[Produced]] = {}
        for partition in range(PARTITIONS):
            mine = [row for row in rows if row.key % PARTITIONS == partition]
            middle = (len(mine) + 1) // 2
            for sequence, part in ((0, mine[:middle]), (middle, mine[middle:])):
                if part:
                    tasks.setdefault(partition, []).append(((TOPIC, partition), sequence, part))
        return tasks

    def run_task(self, batches: list[Produced]) -> None:
        """Write them all; a task that dies leaves a zombie behind, and its second attempt refuses to write."""
        for number, (place, sequence, rows) in enumerate(batches):
            if (late := self.world.task_dies(place)) is not None:
                self.task_died(batches[number:], late)
                return
            self.produce(place, sequence, rows)

    def task_died(self, left: list[Produced], late: int) -> None:
        """Poisoned: the epoch is redone under another producer epoch."""
        self.leave_zombie(left, late)
        raise TaskLost("a task was repeated: its records may already be in the transaction")

    def leave_zombie(self, left: list[Produced], late: int) -> None:
        """What the dead task has still to write arrives later."""
        name, identity = self.owner.pipeline, self.identity

        def write() -> None:
            for place, sequence, rows in left:
                self.wire._broker.produce(name, identity, place, sequence, len(rows), rows)  # noqa: SLF001

        self.world.later(late, write, f"a zombie task's records under {identity}")

    @property
    def identity(self) -> tuple[int, int]:
        """Under which this try's records travel."""
        assert self.transaction is not None
        return self.transaction.identity.producer_id, self.transaction.identity.producer_epoch

    def produce(self, place: Place, sequence: int, rows: list[Row]) -> None:
        """Until it is acknowledged."""
        for number in self._answers(place, sequence, rows):
            found = code(number)
            if found.meaning is Meaning.ACCEPTED:
                return
            if number == OUT_OF_ORDER:
                raise SequenceBroken(f"{place} expects another sequence than {sequence}")
            if found.meaning is Meaning.IDENTITY_LOST:
                raise IdentityLost(f"{place}: {found.name}")

    def _answers(self, place: Place, sequence: int, rows: list[Row]) -> Iterator[int]:
        while True:
            with suppress(AnswerLost):
                yield self.wire.produce(self.owner.pipeline, self.identity, place, sequence, rows)[0]
            self.world.sleep(0.005)

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:  # noqa: ARG002
        """Everything is acknowledged."""
        self.outcome = outcome
        return {"version": 1, "producer_id": self.identity[0], "producer_epoch": self.identity[1]}

    def decide(self, context: EpochContext, committable: Committable) -> Verdict:  # noqa: ARG002
        """Marker, then EndTxn."""
        assert self.transaction is not None
        ended = self.transactor.commit(
            self.transaction,
            positions=context.positions,
            lineage=self.owner.lineage,
            term=self.owner.term,
            outcome=self.outcome,
        )
        return self.conclude(ended)

    def abort(self, context: EpochContext) -> None:  # noqa: ARG002
        """Nothing of this try is ever visible."""
        if self.transaction is not None:
            self.conclude(self.transactor.abort(self.transaction))

    def digest(self, context: EpochContext, rows: Batch) -> Outcome:
        """What the rows would put out."""
        return of_rows(rows.rows(self.owner.term, context.attempt), TOPIC, PARTITIONS)

    def conclude(self, ended: EpochTransaction) -> Verdict:
        """The transaction is over."""
        self.transaction = None
        if ended.state is State.FENCED:
            raise PipelineFenced(f"epoch {ended.epoch}: a newer driver has taken over the transactional id")
        return Verdict.COMMITTED if ended.state is State.COMMITTED else Verdict.ABORTED
