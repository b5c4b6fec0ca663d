"""Record batches on their way to a real broker: in order, once, whatever becomes of answers and brokers."""

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from kafka.errors import KafkaConnectionError
from kafka.future import Future
from kafka.protocol.producer import ProduceRequest

from onceward.epoch.outcome import Span, TopicPartition
from onceward.errors import BrokerRefused, TopicUnusable
from onceward.kafka import sender as sender_module
from onceward.kafka.idempotent import IdempotentProducer
from onceward.kafka.records import stamp
from onceward.kafka.sender import Sender, SequenceBroken
from onceward.kafka.transaction import Identity, State
from onceward.kafka.wire import Cluster, Wire


class Watched(Wire):
    """Keeps what was produced, request by request: {(topic, partition)}."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.requests: list[set[tuple[str, int]]] = []
        self.flying, self.most = 0, 0

    def send(self, node: int, request: object) -> Future:
        future = super().send(node, request)
        if isinstance(request, ProduceRequest):
            self.requests.append({(t.name, p.index) for t in request.topic_data for p in t.partition_data})
            self.flying += 1
            self.most = max(self.most, self.flying)
            future.add_both(self._landed)
        return future

    def _landed(self, _: object) -> None:
        self.flying -= 1


class Deaf(Wire):
    """The broker has the records; some of its answers are lost on the way back."""

    def __init__(self, cluster: Cluster, *, share: float) -> None:
        super().__init__(cluster)
        self.share, self.random, self.lost = share, Random(5), 0

    def send(self, node: int, request: object) -> Future:
        heard = super().send(node, request)
        if not isinstance(request, ProduceRequest) or self.random.random() >= self.share:
            return heard
        self.lost += 1
        missed = Future()
        heard.add_both(lambda _: missed.failure(KafkaConnectionError("answer lost (by the test)")))
        return missed


def fresh(wire: Wire) -> Identity:
    producer = IdempotentProducer(wire, "none")
    producer.begin()
    return producer.identity


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


def produce_raw(wire: Wire, place: TopicPartition, payload: bytes) -> tuple[int, int]:
    """One request without a sender: (error code, base offset)."""
    data = ProduceRequest.TopicProduceData
    entry = data.PartitionProduceData(index=place.partition, records=payload)
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=20_000,
        topic_data=[data(name=place.topic, partition_data=[entry])],
        max_version=12,
    )
    part = wire.call(wire.topics([place.topic])[place.topic][place.partition], request).responses[0]
    return part.partition_responses[0].error_code, part.partition_responses[0].base_offset


class TestOrder:
    def test_many_batches_of_many_partitions_arrive_once_and_in_order(self, lab: Any) -> None:
        """C1: and several partitions share a request, and several requests are on their way."""
        topic, wire = lab.topic(4), lab.wire_of(Watched)
        sender = Sender(wire, fresh(wire), None)
        rows = numbered(300)
        for row in rows:
            for partition in range(4):
                sender.send(TopicPartition(topic, partition), lab.payload(row, row + b"+"), 2)
        assert sender.flush() == {TopicPartition(topic, partition): Span(0, 600) for partition in range(4)}
        expected = [value for row in rows for value in (row, row + b"+")]
        assert lab.read(topic) == [expected] * 4
        assert len(wire.requests) < 600
        assert max(map(len, wire.requests)) == 4
        assert 2 <= wire.most <= sender_module.IN_FLIGHT

    def test_two_topics_share_a_request_and_a_second_flush_goes_on(self, lab: Any) -> None:
        first, second, wire = TopicPartition(lab.topic(), 0), TopicPartition(lab.topic(), 0), lab.wire_of(Watched)
        sender = Sender(wire, fresh(wire), None)
        for turn in range(2):
            for place in (first, second):
                sender.send(place, lab.payload(b"%d" % turn), 1)
            assert sender.flush() == {first: Span(0, turn + 1), second: Span(0, turn + 1)}
        assert {(first.topic, 0), (second.topic, 0)} in wire.requests
        assert lab.read(first.topic) == lab.read(second.topic) == [[b"0", b"1"]]

    def test_nothing_sent_is_nothing_to_wait_for(self, lab: Any) -> None:
        assert Sender(lab.wire, Identity(1, 1), None).flush() == {}

    def test_sending_more_than_memory_allows_waits_for_room(self, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sender_module, "QUEUE_BYTES", 1000)
        topic = lab.topic()
        sender = Sender(lab.wire, fresh(lab.wire), None)
        for row in numbered(100):
            sender.send(TopicPartition(topic, 0), lab.payload(row), 1)
            assert sender._queued_bytes <= 1000
        sender.flush()
        assert lab.read(topic) == [numbered(100)]

    def test_a_request_over_its_size_is_split(self, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sender_module, "REQUEST_BYTES", 250)
        topic, wire = lab.topic(4), lab.wire_of(Watched)
        sender = Sender(wire, fresh(wire), None)
        for row in numbered(20):
            for partition in range(4):
                sender.send(TopicPartition(topic, partition), lab.payload(row), 1)
        sender.flush()
        assert max(map(len, wire.requests)) == 3
        assert lab.read(topic) == [numbered(20)] * 4


class TestLostAnswers:
    @pytest.mark.parametrize("share", [0.1, 0.5])
    @pytest.mark.parametrize("transactional", [False, True], ids=["idempotent", "transactional"])
    def test_a_batch_whose_answer_is_lost_is_sent_again_and_kept_once(
        self, lab: Any, transactional: bool, share: float
    ) -> None:
        """C1."""
        topic = lab.topic(2)
        wire = lab.wire_of(Deaf, share=share)
        transactor = lab.transactor(wire=wire) if transactional else None
        identity = transactor.identity if transactor else fresh(wire)
        sender = Sender(wire, identity, transactor.pipeline if transactor else None)
        for row in numbered(60):
            for partition in range(2):
                sender.send(TopicPartition(topic, partition), lab.payload(row), 1)
        assert sender.flush() == {TopicPartition(topic, 0): Span(0, 60), TopicPartition(topic, 1): Span(0, 60)}
        assert wire.lost > 0
        if transactor:
            rows: dict[TopicPartition, list[bytes]] = {TopicPartition(topic, partition): [] for partition in range(2)}
            assert lab.commit(transactor, transactor.begin(0), rows).state is State.COMMITTED
        assert lab.read(topic) == [numbered(60)] * 2

    def test_a_broker_killed_in_the_middle_keeps_every_record_once_and_in_order(self, own: Any) -> None:
        """C1: kill -9 with requests on their way, then the same broker again on its data."""
        plain, inside = own.topic(2), own.topic(2)
        wire = own.wire_of(Watched)
        transactor = own.transactor()
        transaction = transactor.begin(0)
        idempotent = Sender(wire, fresh(wire), None)
        transactional = Sender(transactor.wire, transaction.identity, transactor.pipeline)
        rows = numbered(200)
        for row in rows[:100]:
            send_everywhere(own, row, (idempotent, plain), (transactional, inside))
        turn_until(idempotent, lambda: wire.flying >= 3)
        turn_until(transactional, lambda: len(transactional._lanes[TopicPartition(inside, 0)].flying) >= 3)
        own.broker.kill()
        restart = threading.Thread(target=own.broker.restart)
        restart.start()
        try:
            for row in rows[100:]:
                send_everywhere(own, row, (idempotent, plain), (transactional, inside))
            idempotent.flush()
            transactional.flush()
        finally:
            restart.join()
        outcome = {TopicPartition(inside, partition): rows for partition in range(2)}
        assert own.read(inside) == [[], []]
        assert own.commit(transactor, transaction, outcome).state is State.COMMITTED
        assert own.read(plain) == [rows] * 2
        assert own.read(inside) == [rows] * 2


def send_everywhere(lab: Any, row: bytes, *targets: tuple[Sender, str]) -> None:
    for sender, topic in targets:
        for partition in range(2):
            sender.send(TopicPartition(topic, partition), lab.payload(row), 1)


def turn_until(sender: Sender, condition: Callable[[], bool]) -> None:
    """Some batches are acknowledged, some are on their way, some wait."""
    for _ in range(1000):
        while sender._dispatch():
            pass
        if condition():
            return
        sender._turn()
    raise AssertionError("never so many on their way")


class TestIdempotence:
    """What sequence numbers do, and where they end."""

    def test_equal_sequences_with_other_bytes_keep_the_first_and_report_success(self, lab: Any) -> None:
        """Trap 1: why a repeated task attempt may not write into the same transaction."""
        place = TopicPartition(lab.topic(), 0)
        identity = fresh(lab.wire)
        for attempt in (b"first attempt", b"second attempt"):
            sender = Sender(lab.wire, identity, None)
            sender.send(place, lab.payload(attempt), 1)
            assert sender.flush() == {place: Span(0, 1)}
        assert lab.read(place.topic) == [[b"first attempt"]]

    def test_a_shorter_or_longer_repeat_is_noticed_at_once(self, lab: Any) -> None:
        """Trap 1: where the counts differ the broker does tell; nothing of the repeat is kept."""
        place = TopicPartition(lab.topic(), 0)
        identity = fresh(lab.wire)
        lab.write(lab.wire, identity, None, {place: [b"a", b"b"]})
        for repeat in ([b"a"], [b"a", b"b", b"c"]):
            with pytest.raises(SequenceBroken, match=rf"{place.topic}-0 expects another sequence than 0"):
                lab.write(lab.wire, identity, None, {place: repeat})
        assert lab.read(place.topic) == [[b"a", b"b"]]

    def test_a_second_producer_without_a_transactional_id_duplicates(self, lab: Any) -> None:
        """C2: a restarted producer is another one to the broker."""
        place = TopicPartition(lab.topic(), 0)
        for _ in range(2):
            sender = Sender(lab.wire, fresh(lab.wire), None)
            sender.send(place, lab.payload(b"same"), 1)
            sender.flush()
        assert lab.read(place.topic) == [[b"same", b"same"]]

    def test_an_application_that_sends_twice_duplicates(self, lab: Any) -> None:
        """C2."""
        place = TopicPartition(lab.topic(), 0)
        sender = Sender(lab.wire, fresh(lab.wire), None)
        for _ in range(2):
            sender.send(place, lab.payload(b"same"), 1)
        sender.flush()
        assert lab.read(place.topic) == [[b"same", b"same"]]

    def test_the_broker_remembers_five_batches_and_not_the_sixth(self, lab: Any) -> None:
        """C2: so no more than five may be on their way."""
        place, identity = TopicPartition(lab.topic(), 0), fresh(lab.wire)
        batches = [
            stamp(
                lab.payload(row),
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=sequence,
                transactional=False,
            )
            for sequence, row in enumerate(numbered(6))
        ]
        for sequence, batch in enumerate(batches):
            assert produce_raw(lab.wire, place, batch) == (0, sequence)
        for sequence in range(1, 6):
            assert produce_raw(lab.wire, place, batches[sequence]) == (0, sequence)  # known: its first place
        error, _ = produce_raw(lab.wire, place, batches[0])
        assert error == 45  # a repeat, told like a gap: the broker cannot tell any more
        assert lab.read(place.topic) == [numbered(6)]
        assert sender_module.IN_FLIGHT == 5

    def test_a_partition_that_does_not_know_the_producer_takes_whatever_sequence_comes_first(self, lab: Any) -> None:
        """Why the first batch goes alone: were a second one on its way, it could be taken in the first one's place."""
        place, identity = TopicPartition(lab.topic(), 0), fresh(lab.wire)
        answers = []
        for sequence in (5, 0):
            batch = stamp(
                lab.payload(b"%d" % sequence),
                producer_id=identity.producer_id,
                producer_epoch=identity.producer_epoch,
                base_sequence=sequence,
                transactional=False,
            )
            answers.append(produce_raw(lab.wire, place, batch)[0])
        assert answers == [0, 45]
        assert lab.read(place.topic) == [[b"5"]]


class TestUnusableTopics:
    def test_an_unknown_topic_is_named(self, lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sender_module, "NEW_TOPIC_S", 0.3)
        place = TopicPartition(lab.name("missing"), 0)
        sender = Sender(lab.wire, fresh(lab.wire), None)
        sender.send(place, lab.payload(b"x"), 1)
        with pytest.raises(TopicUnusable, match=rf"topic '{place.topic}' does not exist; make it"):
            sender.flush()

    def test_a_topic_made_a_moment_later_is_waited_for(self, lab: Any) -> None:
        """Brokers learn of a new topic one after the other."""
        place = TopicPartition(lab.name("late"), 0)
        sender = Sender(lab.wire, fresh(lab.wire), None)
        sender.send(place, lab.payload(b"x"), 1)
        sender._turn()
        maker = lab.wire_of(Wire)
        maker.create_topics([place.topic], 1)
        assert sender.flush() == {place: Span(0, 1)}
        assert lab.read(place.topic) == [[b"x"]]

    def test_a_partition_out_of_range_is_named_with_how_many_there_are(self, lab: Any) -> None:
        topic = lab.topic(3)
        sender = Sender(lab.wire, fresh(lab.wire), None)
        sender.send(TopicPartition(topic, 3), lab.payload(b"x"), 1)
        with pytest.raises(TopicUnusable, match=rf"'{topic}' has 3 partitions, so partition 3 does not exist"):
            sender.flush()

    def test_an_invalid_topic_name_is_refused(self, lab: Any) -> None:
        sender = Sender(lab.wire, fresh(lab.wire), None)
        sender.send(TopicPartition("no such/topic", 0), lab.payload(b"x"), 1)
        with pytest.raises(BrokerRefused, match=r"no such/topic.*no valid topic name"):
            sender.flush()

    def test_a_batch_over_the_topics_limit_is_refused_with_size_and_reason(self, lab: Any) -> None:
        """Trap 9."""
        topic = lab.topic(1, **{"max.message.bytes": "200"})
        sender = Sender(lab.wire, fresh(lab.wire), None)
        sender.send(TopicPartition(topic, 0), lab.payload(b"x" * 500), 1)
        with pytest.raises(
            BrokerRefused, match=rf"{topic}-0 refused a batch of 1 records \(\d+ bytes\): MESSAGE_TOO_L"
        ):
            sender.flush()

    def test_a_record_that_the_topic_refuses_is_named(self, lab: Any) -> None:
        """A compacted topic needs keys."""
        topic = lab.topic(1, **{"cleanup.policy": "compact"})
        sender = Sender(lab.wire, fresh(lab.wire), None)
        sender.send(TopicPartition(topic, 0), lab.payload(b"no key"), 1)
        with pytest.raises(BrokerRefused, match=r"INVALID_RECORD.*compacted topic needs keys"):
            sender.flush()
