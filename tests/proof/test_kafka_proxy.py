"""The proxy before a real broker: one API is broken, the rest passes (G1)."""

import time
import uuid
from collections.abc import Iterator

import pytest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.producer import InitProducerIdRequest

from onceward.epoch.outcome import Outcome, TopicPartition
from onceward.kafka.transaction import State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import TRANSACTION, AnswerLost, Cluster, Wire
from onceward.proof.chaos.kafka_proxy import Api, KafkaProxy
from onceward.proof.chaos.stack import Stack
from support.waiting import eventually

HELD_S = 600.0  # longer than any test: what is held up this long does not come by itself


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack"), postgres=False) as stack:
        yield stack


@pytest.fixture
def proxy(stack: Stack) -> Iterator[KafkaProxy]:
    yield stack.kafka_proxies[0]
    stack.heal()


@pytest.fixture
def direct(stack: Stack) -> Iterator[Wire]:
    wire = Wire(Cluster(stack.bootstrap))
    yield wire
    wire.close()


@pytest.fixture
def proxied(stack: Stack) -> Iterator[Wire]:
    wire = Wire(Cluster(stack.proxied_bootstrap))
    yield wire
    wire.close()


@pytest.fixture
def name() -> str:
    return f"p-{uuid.uuid4().hex[:10]}"


def take(wire: Wire, name: str) -> int:
    """Asks for a transactional id: the broker counts its producer epoch up by one, and answers with it."""

    def request() -> object:
        return InitProducerIdRequest(
            transactional_id=name,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
            enable2_pc=False,
            keep_prepared_txn=False,
        )

    def attempt() -> int | None:
        answer = wire.call_coordinator(name, TRANSACTION, request)
        return None if answer.error_code else int(answer.producer_epoch)

    while (taken := attempt()) is None:  # the coordinator is about to begin
        time.sleep(0.02)
    return taken


def epoch_of(wire: Wire, name: str) -> int:
    """The producer epoch, as the broker tells it."""
    request = DescribeTransactionsRequest(transactional_ids=[name])
    answer = wire.call_coordinator(name, TRANSACTION, lambda: request)
    return int(answer.transaction_states[0].producer_epoch)


def test_a_request_whose_answer_is_lost_has_arrived(proxy: KafkaProxy, direct: Wire, proxied: Wire, name: str) -> None:
    assert take(direct, name) == 0
    proxied.coordinator(name, TRANSACTION)
    trap = proxy.lose_answer_of(Api.INIT_PRODUCER_ID)
    assert proxied.topics([name]) == {}  # another API passes
    assert not trap.sprung.is_set()
    with pytest.raises(AnswerLost):
        take(proxied, name)
    assert trap.sprung.is_set()
    assert epoch_of(direct, name) == 1
    assert take(proxied, name) == 2  # the trap was for one


def test_a_lost_request_has_not_arrived(proxy: KafkaProxy, direct: Wire, proxied: Wire, name: str) -> None:
    assert take(direct, name) == 0
    proxied.coordinator(name, TRANSACTION)
    trap = proxy.lose_request_of(Api.INIT_PRODUCER_ID)
    with pytest.raises(AnswerLost):
        take(proxied, name)
    assert trap.sprung.is_set()
    assert epoch_of(direct, name) == 0
    assert take(proxied, name) == 1


def test_a_late_request_arrives_when_its_client_has_gone_on(
    proxy: KafkaProxy, direct: Wire, proxied: Wire, name: str
) -> None:
    assert take(direct, name) == 0
    proxied.coordinator(name, TRANSACTION)
    trap = proxy.delay_request_of(Api.INIT_PRODUCER_ID, 1.0)
    with pytest.raises(AnswerLost):
        take(proxied, name)
    assert trap.sprung.is_set()
    assert take(proxied, name) == 1
    eventually(lambda: epoch_of(direct, name) == 2, "the late request is carried out", 30)


def test_the_answers_of_one_api_are_held_up_until_it_is_mended(
    proxy: KafkaProxy, direct: Wire, proxied: Wire, name: str
) -> None:
    assert take(direct, name) == 0
    proxied.coordinator(name, TRANSACTION)
    proxy.delay_answers_of(Api.INIT_PRODUCER_ID, 0.4)
    began = time.monotonic()
    assert take(proxied, name) == 1
    assert time.monotonic() - began >= 0.4
    proxy.delay_answers_of(Api.FETCH, HELD_S)
    assert proxied.topics([name]) == {}
    proxy.mend()
    began = time.monotonic()
    assert take(proxied, name) == 2
    assert time.monotonic() - began < 0.4


@pytest.mark.parametrize("direction", ["requests", "answers"])
def test_a_half_closed_connection_is_a_lost_answer_and_the_next_one_serves(
    direction: str, proxy: KafkaProxy, direct: Wire, proxied: Wire, name: str
) -> None:
    assert take(proxied, name) == 0
    proxy.half_close(direction)  # type: ignore[arg-type]
    with pytest.raises(AnswerLost):
        take(proxied, name)
    before = epoch_of(direct, name)
    assert take(proxied, name) == before + 1


def test_a_transaction_whose_end_is_lost_in_each_way_is_committed_once(
    proxy: KafkaProxy, direct: Wire, proxied: Wire, name: str
) -> None:
    """C6: EndTxn may be repeated, and one that comes late finds a newer producer epoch."""
    direct.create_topics([name], 1)
    transactor = Transactor(proxied, name, 60_000)
    transactor.fence()
    break_ways = (proxy.lose_answer_of, proxy.lose_request_of, lambda api: proxy.delay_request_of(api, 0.3))
    for epoch, break_it in enumerate(break_ways):
        trap = break_it(Api.END_TXN)
        begun = transactor.begin(epoch)
        positions = {TopicPartition(name, 0): epoch}
        ended = transactor.commit(begun, positions=positions, lineage="L", term=1, outcome=Outcome())
        assert trap.sprung.is_set()
        assert ended.state is State.COMMITTED
        marker = transactor.read_marker().marker
        assert marker is not None
        assert marker.epoch == epoch
    eventually(lambda: proxy.connections <= 1, "the late request was answered", 30)
    transactor.fence()
    assert transactor.read_marker().positions == {TopicPartition(name, 0): 2}


def test_large_requests_and_answers_pass_whole(proxy: KafkaProxy, stack: Stack, direct: Wire, name: str) -> None:
    from confluent_kafka import Consumer, Producer

    direct.create_topics([name], 1)
    values = [bytes([number]) * 700_000 for number in range(4)]
    producer = Producer({"bootstrap.servers": stack.proxied_bootstrap, "acks": "0"})  # no answers: nothing piles up
    for value in values:
        producer.produce(name, value)
    assert producer.flush(30) == 0
    reader = Consumer({"bootstrap.servers": stack.proxied_bootstrap, "group.id": name, "auto.offset.reset": "earliest"})
    try:
        reader.subscribe([name])
        messages = [reader.poll(30) for _ in values]
        assert [message.value() for message in messages if message is not None] == values
        assert proxy.connections > 0
    finally:
        reader.close()
