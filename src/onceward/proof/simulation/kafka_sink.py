"""The Kafka sink of a simulated driver: the production half that decides, and tasks that write partitions.

The sender's rule is the production one: what is not acknowledged goes again, with the same bytes and the same sequence,
and a task that Spark repeats refuses to write.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final, cast

from onceward.epoch.contract import Committable, EpochContext, Guarantee, Owner, Verdict
from onceward.epoch.outcome import Outcome, Span, TopicPartition
from onceward.kafka.codes import Meaning, code
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.sender import IdentityLost, SequenceBroken
from onceward.kafka.transaction import Identity
from onceward.kafka.wire import AnswerLost, Wire
from onceward.proof.history import Row
from onceward.proof.simulation.broker import Place
from onceward.proof.simulation.engine import Batch, TaskLost, of_rows
from onceward.proof.simulation.wire import MemoryWire
from onceward.proof.simulation.world import World
from onceward.sinks.kafka.transactional import TransactionalKafka

TOPIC: Final = "out"
PARTITIONS: Final = 2
OUT_OF_ORDER: Final = 45
Produced = tuple[Place, int, list[Row]]


class SimulatedKafkaSink(TransactionalKafka):
    """One transaction per epoch."""

    def __init__(self, world: World, wire: MemoryWire, topic: str = TOPIC) -> None:
        super().__init__(cast("Wire", wire), topic, 60_000, clock=world.time, sleep=world.sleep)
        self.world, self.network = world, wire
        self.spans: dict[TopicPartition, Span] = {}  # of the try

    def write(self, context: EpochContext, rows: Batch) -> Outcome:
        """Each task is the only writer of its partitions; here they take turns."""
        made = rows.computed(self.owner.term, context.attempt)
        self.spans = {}
        for _, batches in sorted(self.split(made).items()):
            self.run_task(batches)
        counted = of_rows(made, self.topic, PARTITIONS).partitions.items()
        return Outcome.of((place, replace(part, span=self.spans.get(place))) for place, part in counted)

    def digest(self, context: EpochContext, rows: Batch) -> Outcome:
        """What the rows would write."""
        return of_rows(rows.computed(self.owner.term, context.attempt), self.topic, PARTITIONS)

    def split(self, rows: list[Row]) -> Mapping[int, list[Produced]]:
        """By task: its partitions' record batches, with their sequences."""
        tasks: dict[int, list[Produced]] = {}
        for partition in range(PARTITIONS):
            mine = [row for row in rows if row.key % PARTITIONS == partition]
            middle = (len(mine) + 1) // 2
            for sequence, part in ((0, mine[:middle]), (middle, mine[middle:])):
                if part:
                    tasks.setdefault(partition, []).append(((str(self.topic), partition), sequence, part))
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
        name, producer = self.transactional_id, self.producer

        def write() -> None:
            for place, sequence, rows in left:
                self.network._broker.produce(name, producer, place, sequence, len(rows), rows)  # noqa: SLF001

        self.world.later(late, write, f"a zombie task's records under {producer}")

    @property
    def transactional_id(self) -> str | None:
        """None: there is no transaction."""
        return self.owner.pipeline

    @property
    def producer(self) -> tuple[int, int]:
        """The identity as the broker in memory has it."""
        return self.identity.producer_id, self.identity.producer_epoch

    def produce(self, place: Place, sequence: int, rows: list[Row]) -> None:
        """Until it is acknowledged."""
        for number, offset in self._answers(place, sequence, rows):
            found = code(number)
            if found.meaning is Meaning.ACCEPTED:
                known = self.spans.get(TopicPartition(*place))
                self.spans[TopicPartition(*place)] = Span(known.first if known else offset, offset + len(rows))
                return
            if number == OUT_OF_ORDER:
                raise SequenceBroken(f"{place} expects another sequence than {sequence}")
            if found.meaning is Meaning.IDENTITY_LOST:
                raise IdentityLost(f"{place}: {found.name}")

    def _answers(self, place: Place, sequence: int, rows: list[Row]) -> Iterator[tuple[int, int]]:
        while True:
            with suppress(AnswerLost):
                yield self.network.produce(self.transactional_id, self.producer, place, sequence, rows)
            self.world.sleep(0.005)


class PlainKafkaSink(SimulatedKafkaSink):
    """Under weaker guarantees, put together as `KafkaSink` does it: records are visible as they are written."""

    idempotent: IdempotentProducer

    def open(self, owner: Owner) -> None:
        """Nobody is fenced."""
        self.owner = owner
        self.idempotent = IdempotentProducer(self.wire, owner.pipeline)

    def last_commit(self) -> None:
        """Nobody asks."""

    def begin(self, context: EpochContext) -> None:
        """At most once: the input is given up before it is written."""
        if self.owner.guarantee is Guarantee.AT_MOST_ONCE:
            self.idempotent.commit_positions(context.positions)
        self.idempotent.begin()

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:  # noqa: ARG002 - nothing to decide
        return self.identified()

    def decide(self, context: EpochContext, committable: Committable) -> Verdict:  # noqa: ARG002 - all is visible
        """At least once: the positions follow the records."""
        if self.owner.guarantee is Guarantee.AT_LEAST_ONCE:
            self.idempotent.commit_positions(context.positions)
        return Verdict.COMMITTED

    @property
    def identity(self) -> Identity:
        return self.idempotent.identity

    @property
    def transactional_id(self) -> None:
        """There is none."""
        return
