"""What each answer to a transaction's requests leads to: the production transactor on brokers that answer by script.

The simulation shows what follows from answers that get lost in any order; here are the answers it has no broker for.
"""

from typing import Any

import pytest

from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.errors import BrokerRefused, BrokerUnreachable, CommitUnproven, ConfigurationError, EpochTooLong
from onceward.kafka import marker as markers
from onceward.kafka.transaction import EpochTransaction, Identity, State
from onceward.kafka.transactor import RESOLVE_TIMEOUT_S, Transactor
from support.brokers import LOST, Brokers, said

PLACE = TopicPartition("in", 0)
TOO_LONG = 50  # INVALID_TRANSACTION_TIMEOUT


@pytest.fixture
def brokers() -> Brokers:
    brokers = Brokers()
    brokers.will("InitProducerIdRequest", identity(0))
    brokers.will("TxnOffsetCommitRequest", marked(0))
    brokers.will("EndTxnRequest", identity(1))
    brokers.will("OffsetFetchRequest", offsets())
    return brokers


@pytest.fixture
def transactor(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Transactor:
    return Transactor(brokers.wire(monkeypatch), "p", 60_000, clock=brokers.clock, sleep=brokers.sleep)


def identity(epoch: int, error_code: int = 0) -> Any:
    return said(error_code, producer_id=7, producer_epoch=epoch)


def marked(number: int) -> Any:
    return said(topics=[said(partitions=[said(0), said(number)])])


def offsets(*metadata: str, error_code: int = 0) -> Any:
    parts = [said(partition_index=index, committed_offset=5, metadata=text) for index, text in enumerate(metadata)]
    return said(groups=[said(error_code, topics=[said(name="in", partitions=parts)])])


def marker_of(epoch: int, lineage: str = "L") -> str:
    return markers.of(lineage=lineage, epoch=epoch, term=1, outcome=None)[0]


def commit(transactor: Transactor, epoch: int = 3) -> EpochTransaction:
    return transactor.commit(transactor.begin(epoch), positions={PLACE: 9}, lineage="L", term=1, outcome=None)


class TestFencing:
    def test_waits_for_the_coordinator_and_takes_the_identity_from_the_answer(
        self, brokers: Brokers, transactor: Transactor
    ) -> None:
        brokers.will("InitProducerIdRequest", LOST, identity(-1, 51), identity(-1, 16), identity(8))
        assert transactor.fence() == transactor.identity == Identity(7, 8)
        assert [request.producer_id for request in brokers.requests("InitProducerIdRequest")] == [-1] * 4

    def test_there_is_no_identity_before_it(self, transactor: Transactor) -> None:
        with pytest.raises(AssertionError, match="fence"):
            _ = transactor.identity

    @pytest.mark.parametrize(
        ("number", "says"), [(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED, not all"), (-2, "ERROR_-2, not known")]
    )
    def test_that_is_refused_names_the_transactional_id(
        self, brokers: Brokers, transactor: Transactor, number: int, says: str
    ) -> None:
        brokers.will("InitProducerIdRequest", identity(-1, number))
        with pytest.raises(BrokerRefused, match=f"transactional id 'p': {says}"):
            transactor.fence()

    def test_with_a_timeout_over_the_brokers_names_both_settings(
        self, brokers: Brokers, transactor: Transactor
    ) -> None:
        brokers.will("InitProducerIdRequest", identity(-1, TOO_LONG))
        with pytest.raises(ConfigurationError, match=r"transaction_timeout_ms=60000 .*transaction\.max\.timeout\.ms"):
            transactor.fence()

    def test_that_nobody_answers_ends_at_its_deadline_with_the_last_reason(
        self, brokers: Brokers, transactor: Transactor
    ) -> None:
        brokers.will("InitProducerIdRequest", identity(-1, 51))
        with pytest.raises(BrokerUnreachable, match=r"InitProducerId for 'p' had no answer in 180 s: CONCURRENT_TRANS"):
            transactor.fence()
        assert brokers.waited == pytest.approx(RESOLVE_TIMEOUT_S, abs=1)


class TestTheMarker:
    def test_is_the_newest_with_the_positions_that_were_committed_with_it(
        self, brokers: Brokers, transactor: Transactor
    ) -> None:
        brokers.will("OffsetFetchRequest", offsets(marker_of(3), marker_of(4), "a tool's note"))
        found = transactor.read_marker()
        assert found.marker is not None
        assert (found.marker.epoch, found.positions) == (4, {TopicPartition("in", 1): 5})

    @pytest.mark.parametrize("stable", [True, False])
    def test_is_waited_for_while_a_transaction_over_it_is_open_unless_told_otherwise(
        self, brokers: Brokers, transactor: Transactor, stable: bool
    ) -> None:
        brokers.will("OffsetFetchRequest", offsets(error_code=88), offsets(marker_of(4)))
        assert transactor.read_marker(stable=stable).marker.epoch == 4
        assert {request.require_stable for request in brokers.requests("OffsetFetchRequest")} == {stable}

    @pytest.mark.parametrize(("number", "name"), [(30, "GROUP_AUTHORIZATION_FAILED"), (-1, "UNKNOWN_SERVER_ERROR")])
    def test_that_may_not_be_read_is_said_so(
        self, brokers: Brokers, transactor: Transactor, number: int, name: str
    ) -> None:
        """-1 is UNKNOWN_SERVER_ERROR: an answer without offsets, which is not "no marker"."""
        brokers.will("OffsetFetchRequest", offsets(error_code=number))
        with pytest.raises(BrokerRefused, match=f"the marker of 'p' cannot be read: {name}"):
            transactor.read_marker()

    @pytest.mark.parametrize("partitions", [1, 2, 5])
    def test_is_whole_on_the_first_place_and_short_on_the_others(
        self, brokers: Brokers, transactor: Transactor, partitions: int
    ) -> None:
        """C4: a broker keeps so much text for each; one place is enough, and the only one has it."""
        transactor.fence()
        places = {TopicPartition("in", number): 9 for number in range(partitions)}
        outcome = Outcome(rows=4, digest=0xABC)
        transactor.commit(transactor.begin(0), positions=places, lineage="L", term=1, outcome=outcome)
        (asked,) = brokers.requests("TxnOffsetCommitRequest")
        full, short = markers.of(lineage="L", epoch=0, term=1, outcome=outcome)
        assert [part.committed_metadata for part in asked.topics[0].partitions] == [full] + [short] * (partitions - 1)

    @pytest.mark.parametrize(
        ("number", "name"),
        [(3, "UNKNOWN_TOPIC_OR_PARTITION"), (12, "OFFSET_METADATA_TOO_LARGE"), (25, "UNKNOWN_MEMBER_ID")],
    )
    def test_that_is_refused_for_good_aborts_the_epoch_and_says_why(
        self, brokers: Brokers, transactor: Transactor, number: int, name: str
    ) -> None:
        """A topic that was deleted will not come back by asking again; elsewhere that answer is waited out."""
        transactor.fence()
        brokers.will("TxnOffsetCommitRequest", marked(number))
        with pytest.raises(BrokerRefused, match=f"epoch 3: Kafka refused the marker on in: {name}.*was aborted"):
            commit(transactor)
        assert [request.committed for request in brokers.requests("EndTxnRequest")] == [False]


class TestTheCommit:
    @pytest.mark.parametrize("number", [14, 16, 51], ids=["loading", "moved", "completing"])
    def test_is_asked_for_again_until_it_has_an_answer(
        self, brokers: Brokers, transactor: Transactor, number: int
    ) -> None:
        transactor.fence()
        brokers.will("EndTxnRequest", identity(-1, number), LOST, identity(1))
        assert commit(transactor).state is State.COMMITTED
        assert [request.committed for request in brokers.requests("EndTxnRequest")] == [True] * 3
        assert transactor.identity == Identity(7, 1)

    def test_that_is_refused_for_good_is_told_and_not_aborted(self, brokers: Brokers, transactor: Transactor) -> None:
        transactor.fence()
        brokers.will("EndTxnRequest", identity(-1, 53))
        with pytest.raises(BrokerRefused, match="transactional id 'p': TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            commit(transactor)
        assert [request.committed for request in brokers.requests("EndTxnRequest")] == [True]

    def test_that_nobody_answers_is_unproven_and_not_aborted(self, brokers: Brokers, transactor: Transactor) -> None:
        """B5: unknown is neither a yes nor a no."""
        transactor.fence()
        brokers.will("EndTxnRequest", LOST)
        with pytest.raises(CommitUnproven, match=r"epoch 3: Kafka gave no answer to COMMITTING within 180 s\. Nothing"):
            commit(transactor)
        assert {request.committed for request in brokers.requests("EndTxnRequest")} == {True}

    @pytest.mark.parametrize(
        ("held", "state"),
        [
            ([marker_of(3)], State.COMMITTED),
            ([marker_of(4)], State.COMMITTED),
            ([marker_of(2)], State.ABORTED),
            ([marker_of(3, "another")], State.ABORTED),
            ([], State.ABORTED),
        ],
        ids=["ours", "later", "earlier", "another lineage", "none"],
    )
    def test_of_a_transaction_that_is_not_open_any_more_is_told_by_the_marker_alone(
        self, brokers: Brokers, transactor: Transactor, held: list[str], state: State
    ) -> None:
        """48 says neither that it timed out nor that it was committed."""
        transactor.fence()
        brokers.will("EndTxnRequest", identity(-1, 48))
        brokers.will("InitProducerIdRequest", identity(5))
        brokers.will("OffsetFetchRequest", offsets(*held))
        assert commit(transactor).state is state
        assert transactor.identity == Identity(7, 5)

    def test_of_a_driver_with_a_successor_is_fenced_and_reads_nothing(
        self, brokers: Brokers, transactor: Transactor
    ) -> None:
        transactor.fence()
        brokers.will("EndTxnRequest", identity(-1, 47))
        brokers.will("InitProducerIdRequest", identity(-1, 90))
        assert commit(transactor).state is State.FENCED
        assert brokers.requests("OffsetFetchRequest") == []


class TestTheTime:
    """C9: an epoch that took longer than its transaction's timeout is redone with more."""

    def abort_after(self, brokers: Brokers, transactor: Transactor, seconds: float) -> None:
        transaction = transactor.begin(3)
        brokers.now += seconds
        assert transactor.abort(transaction).state is State.ABORTED

    def asked_for(self, brokers: Brokers) -> list[int]:
        return [request.transaction_timeout_ms for request in brokers.requests("InitProducerIdRequest")[1:]]

    def test_stays_as_it_is_for_an_epoch_that_was_quick(self, brokers: Brokers, transactor: Transactor) -> None:
        transactor.fence()
        self.abort_after(brokers, transactor, 59)
        assert (transactor.timeout_ms, self.asked_for(brokers)) == (60_000, [])

    def test_is_doubled_though_the_abort_itself_went_through(self, brokers: Brokers, transactor: Transactor) -> None:
        transactor.fence()
        self.abort_after(brokers, transactor, 61)
        assert (transactor.timeout_ms, self.asked_for(brokers)) == (120_000, [120_000])

    def test_is_asked_for_once_where_ownership_was_asked_for_anyway(
        self, brokers: Brokers, transactor: Transactor
    ) -> None:
        transactor.fence()
        brokers.will("EndTxnRequest", identity(-1, 48))
        self.abort_after(brokers, transactor, 61)
        assert (transactor.timeout_ms, self.asked_for(brokers)) == (120_000, [120_000])

    def test_goes_up_to_the_most_that_the_broker_grants(self, brokers: Brokers, transactor: Transactor) -> None:
        transactor.fence()
        brokers.will("InitProducerIdRequest", identity(-1, TOO_LONG), identity(4))
        brokers.will("DescribeConfigsRequest", limit("100000"))
        self.abort_after(brokers, transactor, 61)
        assert (transactor.timeout_ms, self.asked_for(brokers)) == (100_000, [120_000, 100_000])

    def test_is_not_lengthened_by_an_answer_that_grants_nothing(self, brokers: Brokers, transactor: Transactor) -> None:
        transactor.fence()
        fenced = identity(-1, 90)
        brokers.will("InitProducerIdRequest", identity(-1, TOO_LONG), fenced)
        brokers.will("DescribeConfigsRequest", limit("100000"))
        brokers.will("EndTxnRequest", identity(-1, 47))
        assert transactor.abort(transactor.begin(3)).state is State.FENCED
        assert (transactor.timeout_ms, self.asked_for(brokers)) == (60_000, [120_000, 100_000])

    @pytest.mark.parametrize("most", ["60000", "100000"], ids=["told", "told, and not granted"])
    def test_that_is_the_longest_there_is_stops_an_epoch_that_outlasts_it(
        self, brokers: Brokers, transactor: Transactor, most: str
    ) -> None:
        """Redone with the same time it would end the same way, again and again."""
        transactor.fence()
        refused = identity(-1, TOO_LONG)
        answers = [refused, identity(4)] if most == "60000" else [refused, refused, identity(4)]
        brokers.will("InitProducerIdRequest", *answers)
        brokers.will("DescribeConfigsRequest", limit(most))
        transaction = transactor.begin(3)
        brokers.now += 61
        with pytest.raises(EpochTooLong, match=r"epoch 3 took longer than 60 s, the longest.*--replan"):
            transactor.abort(transaction)
        assert self.asked_for(brokers)[-1] == transactor.timeout_ms == 60_000

    def test_that_is_the_longest_there_is_does_not_stop_an_epoch_within_it(
        self, brokers: Brokers, transactor: Transactor
    ) -> None:
        transactor.fence()
        brokers.will("InitProducerIdRequest", identity(-1, TOO_LONG), identity(4))
        brokers.will("DescribeConfigsRequest", limit("60000"))
        brokers.will("EndTxnRequest", identity(-1, 48))
        self.abort_after(brokers, transactor, 1)
        assert transactor.timeout_ms == 60_000


def limit(milliseconds: str) -> Any:
    return said(results=[said(resource_name="1", configs=[said(value=milliseconds)])])
