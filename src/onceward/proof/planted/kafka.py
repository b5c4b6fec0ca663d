"""Planted bugs around Kafka's transaction. None of this is on the shipped path."""

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from onceward.epoch.contract import Committable, EpochContext, LastCommit, Owner, Verdict
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.kafka.codes import Code
from onceward.kafka.transaction import EpochTransaction, Identity, State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import AnswerLost
from onceward.sinks.kafka.boundaries import Boundaries
from onceward.sinks.kafka.transactional import TransactionalKafka

_fence, _last_commit = TransactionalKafka.fence, TransactionalKafka.last_commit
_before: WeakKeyDictionary[TransactionalKafka, LastCommit | None] = WeakKeyDictionary()


def fences_late(self: TransactionalKafka) -> None:
    """The marker as it was before the older driver was stopped."""
    _before[self] = _last_commit(self)
    _fence(self)


def tells_what_was(self: TransactionalKafka) -> LastCommit | None:
    return _before.pop(self) if self in _before else _last_commit(self)


def fences_nobody(self: TransactionalKafka) -> None:
    """A start leaves the transactional id to whoever has it."""


class FencesToWrite(Transactor):
    """Who has no identity asks for one with its first transaction."""

    def begin(self, epoch: int) -> EpochTransaction:
        if self._identity is None:
            self.fence()
        return super().begin(epoch)


class KeepsTheIdentity(Transactor):
    """What the broker says of the next identity is overheard where a transaction was aborted."""

    def _end(self, identity: Identity, *, commit: bool) -> Code:
        answer = super()._end(identity, commit=commit)
        if not commit:
            self._identity = identity
        return answer


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
    """There was no answer."""


class GivesUp(Transactor):
    """Silence is an answer."""

    def _end(self, identity: Identity, *, commit: bool) -> Code:
        try:
            return super()._end(identity, commit=commit)
        except AnswerLost:
            if commit:
                raise _GaveUp from None
            raise


_decide = TransactionalKafka.decide


def aborts_the_unknown(self: TransactionalKafka, context: EpochContext, committable: Committable) -> Verdict:
    """No answer to EndTxn(commit) is taken for a no: the epoch is done again."""
    try:
        return _decide(self, context, committable)
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


_pre_commit, _open = TransactionalKafka.pre_commit, TransactionalKafka.open
_at_start: WeakKeyDictionary[TransactionalKafka, Mapping[TopicPartition, int]] = WeakKeyDictionary()
_first: WeakKeyDictionary[TransactionalKafka, tuple[int, Outcome]] = WeakKeyDictionary()


def notes_the_start(self: TransactionalKafka, owner: Owner) -> None:
    _open(self, owner)
    _at_start[self] = self.wire.ends([str(self.topic)])


def forgets_boundaries(self: TransactionalKafka, context: EpochContext, outcome: Outcome) -> Committable:
    """What an epoch does not write is taken to stand where it stood at the start."""
    vote = _pre_commit(self, context, outcome)
    self.boundaries = _standing(str(self.topic), _at_start[self])
    return {**vote, **self.boundaries.vote(outcome)}


def begins_with_nothing(self: TransactionalKafka, owner: Owner) -> None:
    """A start does not ask where the topic ends."""
    _open(self, owner)
    topic = str(self.topic)
    self.boundaries = _standing(topic, dict.fromkeys(self.wire.ends([topic]), 0))


def keeps_the_first_try(self: TransactionalKafka, context: EpochContext, outcome: Outcome) -> Committable:
    """An epoch that is redone keeps the places of what was aborted."""
    if _first.get(self, (-1, outcome))[0] != context.epoch:
        _first[self] = context.epoch, outcome
    return {**_pre_commit(self, context, outcome), **self.boundaries.vote(_first[self][1])}


def _standing(topic: str, ends: Mapping[TopicPartition, int]) -> Boundaries:
    made = Boundaries()
    made.learn({topic: "id"}, ends)
    return made
