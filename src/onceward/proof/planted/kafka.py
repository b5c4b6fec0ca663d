"""Planted bugs around Kafka's transaction. None of this is on the shipped path."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from onceward.epoch.contract import Committable, EpochContext, LastCommit, Owner, Verdict
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.kafka.codes import Code
from onceward.kafka.transaction import EpochTransaction, Identity, State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import AnswerLost, Wire
from onceward.proof.history import Row
from onceward.proof.simulation.broker import Broker, Place, Transaction
from onceward.proof.simulation.kafka_sink import TOPIC, Produced, SimulatedKafkaSink
from onceward.proof.simulation.wire import MemoryWire
from onceward.sinks.kafka.boundaries import Boundaries


class DoesNotWait(SimulatedKafkaSink):
    """Sent is taken for acknowledged."""

    def produce(self, place: Place, sequence: int, rows: list[Row]) -> None:
        with suppress(AnswerLost):
            self.network.produce(self.owner.pipeline, self.producer, place, sequence, rows)


class _IdOfItsOwn(MemoryWire):
    suffix = ""

    def call_coordinator(self, key: str, kind: int, request: Callable[[], Any]) -> Any:
        def changed() -> Any:
            made = request()
            if hasattr(made, "transactional_id"):
                made.transactional_id += self.suffix
            return made

        return super().call_coordinator(key, kind, changed)

    def produce(
        self, name: str, identity: tuple[int, int], place: Place, sequence: int, rows: list[Any]
    ) -> tuple[int, int]:
        return super().produce(name + self.suffix, identity, place, sequence, rows)


class DoesNotFence(SimulatedKafkaSink):
    """Each start has a transactional id of its own, so that no start fences another."""

    def open(self, owner: Owner) -> None:
        wire = _IdOfItsOwn(self.world, self.network._broker)  # noqa: SLF001 - a bug may look inside
        wire.suffix = f"-{owner.term}"
        self.network, self.wire = wire, cast("Wire", wire)
        super().open(owner)


class ReadsBeforeFencing(SimulatedKafkaSink):
    """The marker as it was before the older driver was stopped."""

    _before: LastCommit | None = None
    _asked = False

    def fence(self) -> None:
        self._before = super().last_commit()
        super().fence()

    def last_commit(self) -> LastCommit | None:
        if self._asked:
            return super().last_commit()
        self._asked = True
        return self._before


class RetriesInTheTransaction(SimulatedKafkaSink):
    """A task's second attempt writes into the same transaction; its rows come in another order this time."""

    def task_died(self, left: list[Produced], late: int) -> None:  # noqa: ARG002 - there is no zombie
        places = {place for place, _, _ in left}
        for _, batches in sorted(self._all.items()):
            mine = [batch for batch in batches if batch[0] in places]
            rows = [row for _, _, part in mine for row in part][::-1]
            for place, sequence, part in mine:
                self.produce(place, sequence, [rows.pop(0) for _ in part])

    def split(self, rows: list[Row]) -> Mapping[int, list[Produced]]:
        self._all = super().split(rows)
        return self._all


class EpochStays(Broker):
    """The old protocol: an abort leaves the producer epoch as it is."""

    def _prepare(self, held: Transaction, *, commit: bool) -> None:
        if commit:
            super()._prepare(held, commit=True)
            return
        held.state = "aborting"
        held.following = (held.producer_id, held.producer_epoch)
        self._mark_places(held)


class ReusesTheEpoch(SimulatedKafkaSink):
    """After an abort the next try goes on under the same producer epoch, where the last one's sequences ended."""

    _sent: dict[tuple[tuple[int, int], Place], int]

    def open(self, owner: Owner) -> None:
        super().open(owner)
        self._sent = {}

    def write(self, context: EpochContext, rows: Any) -> Outcome:
        self._begun = dict(self._sent)
        return super().write(context, rows)

    def produce(self, place: Place, sequence: int, rows: list[Row]) -> None:
        key = (self.producer, place)
        first = self._begun.get(key, 0) + sequence
        super().produce(place, first, rows)
        self._sent[key] = first + len(rows)

    def leave_zombie(self, left: list[Produced], late: int) -> None:
        moved = [(place, self._begun.get((self.producer, place), 0) + at, rows) for place, at, rows in left]
        super().leave_zombie(moved, late)


class MarksAfterwards(Transactor):
    """The transaction ends, then the marker follows in another one."""

    def commit(
        self,
        transaction: EpochTransaction,
        *,
        positions: Mapping[TopicPartition, int],
        lineage: str,
        term: int,
        outcome: Outcome | None,
    ) -> EpochTransaction:
        if outcome is not None and outcome.rows:
            first = EpochTransaction(epoch=transaction.epoch, identity=transaction.identity, state=State.COMMITTING)
            ended = self._drive(first, {}, {}, lambda _: False)
            if ended.state is not State.COMMITTED:
                return ended
        following = self.begin(transaction.epoch)
        return super().commit(following, positions=positions, lineage=lineage, term=term, outcome=outcome)


class _GaveUp(Exception):
    pass


class _AbortsAfterSilence(Transactor):
    def _end(self, identity: Identity, *, commit: bool) -> Code:
        try:
            return super()._end(identity, commit=commit)
        except AnswerLost:
            if commit:
                raise _GaveUp from None
            raise


class AbortsTheUnknownCommit(SimulatedKafkaSink):
    """No answer to EndTxn(commit) is taken for a no: the epoch is done again."""

    def __init__(self, world: Any, wire: MemoryWire) -> None:
        super().__init__(world, wire, _AbortsAfterSilence)

    def decide(self, context: EpochContext, committable: Committable) -> Verdict:
        try:
            return super().decide(context, committable)
        except _GaveUp:
            self.transaction = None
            self.fence()
            return Verdict.ABORTED


class ComputesTheIdentity(Transactor):
    """The next producer epoch is this one plus one; but the broker may have begun another producer id."""

    def _end(self, identity: Identity, *, commit: bool) -> Code:
        answer = super()._end(identity, commit=commit)
        if answer.number == 0:
            self._identity = Identity(identity.producer_id, identity.producer_epoch + 1)
        return answer


class TakesTheTimeoutForCommitted(Transactor):
    """An identity that is lost is never asked after: the commit was sent, so it is believed."""

    def _drive(self, transaction: EpochTransaction, *arguments: Any) -> EpochTransaction:
        ended = super()._drive(transaction, *arguments)
        if ended.state is State.ABORTED and transaction.state is State.MARKING:
            return EpochTransaction(epoch=ended.epoch, identity=ended.identity, state=State.COMMITTED)
        return ended


class MarksWithoutTerm(Transactor):
    """The marker names the epoch, but not whose votes count."""

    def commit(
        self,
        transaction: EpochTransaction,
        *,
        positions: Mapping[TopicPartition, int],
        lineage: str,
        term: int,
        outcome: Outcome | None,
    ) -> EpochTransaction:
        return super().commit(transaction, positions=positions, lineage=lineage, term=min(term, 1), outcome=outcome)


class BoundariesForgotten(SimulatedKafkaSink):
    """What an epoch does not write is taken to stand where it stood at the start."""

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        vote = super().pre_commit(context, outcome)
        self.boundaries = _standing(self._at_start)
        return {**vote, **self.boundaries.vote(outcome)}

    def open(self, owner: Owner) -> None:
        super().open(owner)
        self._at_start = self.wire.ends([TOPIC])


class BoundariesFromNothing(SimulatedKafkaSink):
    """A start does not ask where the topic ends."""

    def open(self, owner: Owner) -> None:
        super().open(owner)
        self.boundaries = _standing(dict.fromkeys(self.wire.ends([TOPIC]), 0))


def _standing(ends: Mapping[TopicPartition, int]) -> Boundaries:
    made = Boundaries()
    made.learn({TOPIC: "id"}, ends)
    return made


class BoundariesOfTheFirstTry(SimulatedKafkaSink):
    """An epoch that is redone keeps the places of what was aborted."""

    _first: tuple[int, Outcome] = (-1, Outcome())

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        if self._first[0] != context.epoch:
            self._first = context.epoch, outcome
        return {**super().pre_commit(context, outcome), **self.boundaries.vote(self._first[1])}
