"""Drives an epoch's transaction against the brokers: sends what the table asks for, reads what comes back.

`transaction.py` decides; this module does. An unknown answer is repeated or resolved by asking for
ownership and reading the marker, never by an abort.
"""

import time
from collections.abc import Callable, Mapping
from typing import Final

from onceward import crashpoints
from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.errors import (
    BrokerRefused,
    BrokerUnreachable,
    CommitUnproven,
    ConfigurationError,
    EpochTooLong,
    OncewardError,
)
from onceward.events import logger
from onceward.kafka import marker as markers
from onceward.kafka.codes import Code, Meaning
from onceward.kafka.requests import Committed, Requests
from onceward.kafka.transaction import EpochTransaction, Event, Identity, State
from onceward.kafka.wire import AnswerLost, Wire

RESOLVE_TIMEOUT_S: Final = 180.0  # a cluster that lost its coordinator has a new one long before this
DEFAULT_MAX_TIMEOUT_MS: Final = 900_000  # Kafka's own transaction.max.timeout.ms, where it may not be asked
RETRY_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)  # 51 right after EndTxn lasts milliseconds

log = logger("onceward.kafka")


class Transactor:
    """The holder of one transactional id. Its `identity` is that of the next transaction."""

    def __init__(
        self,
        wire: Wire,
        pipeline: str,
        timeout_ms: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.wire = wire
        self.pipeline = pipeline
        self.timeout_ms = timeout_ms
        self._requests = Requests(wire, pipeline)
        self._clock = clock
        self._sleep = sleep
        self._identity: Identity | None = None
        self._began_at = 0.0
        self._at_limit = False  # no longer timeout is to be had
        self._refused: Code | None = None  # why the marker was not taken

    @property
    def identity(self) -> Identity:
        """The producer id and epoch that the next transaction's records carry."""
        if self._identity is None:
            raise AssertionError("fence() comes first")
        return self._identity

    def fence(self) -> Identity:
        """Take the pipeline over: every older holder of the id is refused from now on, its open work aborted."""
        answer = self._until_settled(lambda: self._init(None, self.timeout_ms), "InitProducerId")
        if answer.meaning is not Meaning.ACCEPTED:
            raise self._refusal(answer)
        crashpoints.reach("fenced")
        return self.identity

    def read_marker(self, *, stable: bool = True) -> Committed:
        """The newest committed marker and positions. Only `fence` waits until every older transaction is complete.

        `stable=False`: as it is at this moment, without waiting for a transaction that is open.

        EndTxn answers before its end markers are written, and a group's first offsets are not listed until then.
        """
        found: list[Committed] = []
        answer = self._until_settled(lambda: self._fetch_marker(found, stable=stable), "OffsetFetch")
        if answer.meaning is not Meaning.ACCEPTED:
            raise BrokerRefused(f"the marker of {self.pipeline!r} cannot be read: {answer.name}, {answer.says}")
        return found[-1]

    def begin(self, epoch: int) -> EpochTransaction:
        """Open the epoch. Kafka learns of it with the first record: transaction.version 2 enrols implicitly."""
        self._began_at = self._clock()
        return EpochTransaction(epoch=epoch, identity=self.identity)

    def commit(
        self,
        transaction: EpochTransaction,
        *,
        positions: Mapping[TopicPartition, int],
        lineage: str,
        term: int,
        outcome: Outcome | None,
    ) -> EpochTransaction:
        """Mark and end the transaction. The result is COMMITTED, ABORTED (redo the epoch) or FENCED.

        A marker that Kafka refuses for good is `BrokerRefused`, after the abort: doing it again would not help.
        """
        self._refused = None
        full, short = markers.of(lineage=lineage, epoch=transaction.epoch, term=term, outcome=outcome)
        texts = {place: full if index == 0 else short for index, place in enumerate(sorted(positions))}

        def committed(found: Committed) -> bool:
            marker = found.marker
            return marker is not None and marker.lineage == lineage and marker.epoch >= transaction.epoch

        ended = self._drive(transaction.after(Event.WRITTEN), positions, texts, committed)
        if self._refused is not None and ended.state is State.ABORTED:
            topics = ", ".join(sorted({place.topic for place in positions}))
            raise BrokerRefused(
                f"pipeline {self.pipeline!r}, epoch {transaction.epoch}: Kafka refused the marker on {topics}: "
                f"{self._refused.name}, {self._refused.says}. "
                "The epoch was aborted, nothing of it is visible. Check that these topics exist and that the pipeline "
                "may write to the group of its name."
            )
        return ended

    def abort(self, transaction: EpochTransaction) -> EpochTransaction:
        """Abandon the transaction. The result is ABORTED or FENCED."""
        return self._drive(transaction.after(Event.WRITE_FAILED), {}, {}, lambda _: False)

    def _drive(
        self,
        transaction: EpochTransaction,
        positions: Mapping[TopicPartition, int],
        texts: Mapping[TopicPartition, str],
        committed: Callable[[Committed], bool],
    ) -> EpochTransaction:
        """Send the request of each state until none is left."""
        deadline, tries, found = self._clock() + RESOLVE_TIMEOUT_S, 0, list[Committed]()
        old, reclaimed = transaction.identity, False
        senders: Mapping[State, Callable[[], Code]] = {
            State.MARKING: lambda: self._requests.mark(old, positions, texts),
            State.COMMITTING: lambda: self._end(old, commit=True),
            State.ABORTING: lambda: self._end(old, commit=False),
            State.RECLAIMING: lambda: self._reclaim(old),
            State.READING: lambda: self._fetch_marker(found),
        }
        while not transaction.over:
            try:
                answer = senders[transaction.state]()
            except (AnswerLost, BrokerUnreachable) as lost:  # nobody answers: not even who the coordinator is
                log.warning(
                    "epoch %d: %s, asking again", transaction.epoch, lost,
                    extra={"event": "kafka_asked_again", "epoch": transaction.epoch, "reason": str(lost)},
                )  # fmt: skip
                event: Event | None = Event.ANSWER_LOST
            else:
                event = self._event(transaction, answer, found=committed(found[-1]) if found else None)
            if event is not None and event is not Event.ANSWER_LOST:
                if event is Event.ACCEPTED and transaction.state is State.MARKING and transaction.epoch >= 0:
                    crashpoints.reach("marked", transaction.epoch)
                transaction, tries = transaction.after(event), 0
                reclaimed = reclaimed or transaction.state is State.RECLAIMING
                continue
            if self._clock() > deadline:
                raise CommitUnproven(
                    f"pipeline {self.pipeline!r}, epoch {transaction.epoch}: Kafka gave no answer to "
                    f"{transaction.state.name} within {RESOLVE_TIMEOUT_S:.0f} s. Nothing is lost: the next start "
                    "reads the marker and finishes or redoes the epoch. Check that the brokers are up."
                )
            self._sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
            tries += 1
        if transaction.state is State.ABORTED:
            self._lengthen(transaction.epoch, asked=reclaimed)
        return transaction

    def _lengthen(self, epoch: int, *, asked: bool) -> None:
        """An epoch that took longer than its timeout is redone with more time, unless the broker grants no more."""
        if self._took_too_long() and not asked:
            self._until_settled(lambda: self._reclaim(self.identity), "InitProducerId")
        if self._at_limit and self._took_too_long():
            raise EpochTooLong(
                f"pipeline {self.pipeline!r}, epoch {epoch} took longer than {self.timeout_ms / 1000:.0f} s, the "
                "longest transaction that the broker allows (transaction.max.timeout.ms); it was aborted, nothing of "
                "it is visible. Raise that setting on the brokers; or lower max_records_per_epoch and start once with "
                "--replan (replan=True), which cuts the planned epoch into smaller ones."
            )

    def _took_too_long(self) -> bool:
        return self._clock() - self._began_at > self.timeout_ms / 1000

    def _event(self, transaction: EpochTransaction, answer: Code, *, found: bool | None) -> Event | None:
        """What an answer means in this state; None: not done yet, ask again."""
        meaning = Meaning.REFUSED if self._topic_is_gone(transaction.state, answer) else answer.meaning
        if meaning in (Meaning.RETRY, Meaning.MOVED):
            return None
        if meaning is Meaning.ACCEPTED:
            if transaction.state is State.READING:
                return Event.MARKER_FOUND if found else Event.MARKER_ABSENT
            return Event.ACCEPTED
        if meaning is Meaning.IDENTITY_LOST:
            log.warning(
                "epoch %d: %s in %s", transaction.epoch, answer.name, transaction.state.name,
                extra={
                    "event": "kafka_identity_lost", "epoch": transaction.epoch, "code": answer.name,
                    "step": transaction.state.name,
                },
            )  # fmt: skip
            return Event.SUCCESSOR_FOUND if transaction.state is State.RECLAIMING else Event.IDENTITY_LOST
        if transaction.state is State.MARKING:
            self._refused = answer
            return Event.REFUSED
        raise self._refusal(answer)

    @staticmethod
    def _topic_is_gone(state: State, answer: Code) -> bool:
        """A marker on a topic that was deleted will not succeed by asking again."""
        return state is State.MARKING and answer.name == "UNKNOWN_TOPIC_OR_PARTITION"

    def _refusal(self, answer: Code) -> OncewardError:
        if answer.name == "INVALID_TRANSACTION_TIMEOUT":
            return ConfigurationError(
                f"transaction_timeout_ms={self.timeout_ms} is over the broker's transaction.max.timeout.ms; "
                "lower KafkaSink(transaction_timeout_ms=...) or raise the broker's setting"
            )
        return BrokerRefused(f"transactional id {self.pipeline!r}: {answer.name}, {answer.says}")

    def _until_settled(self, request: Callable[[], Code], what: str) -> Code:
        deadline, reason, tries = self._clock() + RESOLVE_TIMEOUT_S, "", 0
        while self._clock() < deadline:
            try:
                answer = request()
                if answer.meaning not in (Meaning.RETRY, Meaning.MOVED):
                    return answer
                reason = answer.name
            except AnswerLost as lost:
                reason = str(lost)
            self._sleep(RETRY_S[min(tries, len(RETRY_S) - 1)])
            tries += 1
        raise BrokerUnreachable(f"{what} for {self.pipeline!r} had no answer in {RESOLVE_TIMEOUT_S:.0f} s: {reason}")

    def _reclaim(self, old: Identity) -> Code:
        """Most likely the transaction took too long: ask for twice the time, or for the most that the broker grants."""
        answer = self._init(old, self.timeout_ms * 2)
        if answer.meaning is Meaning.ACCEPTED:
            self.timeout_ms *= 2
        if answer.name != "INVALID_TRANSACTION_TIMEOUT":
            return answer
        most = self.wire.broker_setting("transaction.max.timeout.ms", DEFAULT_MAX_TIMEOUT_MS)
        if most > self.timeout_ms:
            answer = self._init(old, most)
            if answer.meaning is Meaning.ACCEPTED:
                self.timeout_ms = most
            if answer.name != "INVALID_TRANSACTION_TIMEOUT":
                return answer
        self._at_limit = True
        return self._init(old, self.timeout_ms)

    def _init(self, expected: Identity | None, timeout_ms: int) -> Code:
        answer, identity = self._requests.init(expected, timeout_ms)
        self._identity = identity or self._identity
        return answer

    def _end(self, identity: Identity, *, commit: bool) -> Code:
        answer, following = self._requests.end(identity, commit=commit)
        self._identity = following or self._identity
        return answer

    def _fetch_marker(self, found: list[Committed], *, stable: bool = True) -> Code:
        answer, held = self._requests.fetch(stable=stable)
        if held is not None:
            found.append(held)
        return answer
