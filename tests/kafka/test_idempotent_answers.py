"""The weaker guarantees' producer, on brokers that answer as the test says."""

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.transaction import Identity
from support.brokers import LOST, Brokers, said


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
def producer(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> IdempotentProducer:
    return IdempotentProducer(brokers.wire(monkeypatch), "group")


def parts(*numbers: int) -> object:
    return said(topics=[said(partitions=[said(number) for number in numbers])])


class TestTheProducerId:
    def test_is_asked_for_until_a_broker_has_one_and_is_another_for_each_try(
        self, brokers: Brokers, producer: IdempotentProducer
    ) -> None:
        coming = said(14, producer_id=-1, producer_epoch=-1)
        brokers.will("InitProducerIdRequest", LOST, coming, said(producer_id=4000, producer_epoch=0))
        producer.begin()
        assert producer.identity == Identity(4000, 0)
        brokers.will("InitProducerIdRequest", said(producer_id=4001, producer_epoch=0))
        producer.begin()
        assert producer.identity == Identity(4001, 0)
        assert {request.transactional_id for request in brokers.requests("InitProducerIdRequest")} == {None}

    def test_is_not_asked_for_again_where_it_is_refused(self, brokers: Brokers, producer: IdempotentProducer) -> None:
        brokers.will("InitProducerIdRequest", said(31))
        with pytest.raises(BrokerRefused, match="no producer id: CLUSTER_AUTHORIZATION_FAILED, not allowed on the"):
            producer.begin()
        assert len(brokers.asked) == 1

    def test_is_not_made_up(self, producer: IdempotentProducer) -> None:
        with pytest.raises(AssertionError, match="begin"):
            _ = producer.identity


class TestPositions:
    def test_are_committed_as_plain_offsets_of_the_group(self, brokers: Brokers, producer: IdempotentProducer) -> None:
        brokers.will("OffsetCommitRequest", parts(0, 0))
        producer.commit_positions({TopicPartition("b", 1): 7, TopicPartition("a", 0): 5, TopicPartition("b", 0): 6})
        (request,) = brokers.requests("OffsetCommitRequest")
        told = {
            (topic.name, part.partition_index): (part.committed_offset, part.committed_metadata)
            for topic in request.topics
            for part in topic.partitions
        }
        assert told == {("a", 0): (5, ""), ("b", 0): (6, ""), ("b", 1): (7, "")}
        assert request.group_id == "group"

    def test_of_no_source_are_not_worth_a_request(self, brokers: Brokers, producer: IdempotentProducer) -> None:
        producer.commit_positions({})
        assert brokers.opened == 0

    @pytest.mark.parametrize("number", [14, 16], ids=["loading", "moved"])
    def test_are_sent_again_and_to_whoever_is_in_charge_then(
        self, brokers: Brokers, producer: IdempotentProducer, number: int
    ) -> None:
        brokers.will("OffsetCommitRequest", parts(0, number), parts(0, 0))
        brokers.will("FindCoordinatorRequest", *(said(coordinators=[said(node_id=node)]) for node in (1, 2)))
        producer.commit_positions({TopicPartition("a", 0): 5})
        nodes = [node for node, request in brokers.asked if type(request).__name__ == "OffsetCommitRequest"]
        assert nodes == ([1, 2] if number == 16 else [1, 1])

    def test_that_are_refused_name_the_group(self, brokers: Brokers, producer: IdempotentProducer) -> None:
        brokers.will("OffsetCommitRequest", parts(0, 25))
        with pytest.raises(BrokerRefused, match="group 'group': UNKNOWN_MEMBER_ID, live consumers use the pipeline"):
            producer.commit_positions({TopicPartition("a", 0): 5})
