"""Kafka beside the page: asked from a thread of its own, so that no page waits for a broker that does not answer."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from dashboard.homes import MadeHome, now
from onceward.dashboard import kafka_watch
from onceward.dashboard.kafka_watch import KafkaWatch
from onceward.dashboard.watch import Watch
from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerRefused, BrokerUnreachable
from onceward.kafka import open_transactions
from onceward.kafka.open_transactions import Ends, Holder, OpenTransaction, Sight
from onceward.kafka.wire import Cluster, Wire
from support.waiting import eventually

OUT = TopicPartition("out", 0)
OPEN = OpenTransaction("orders", 7, 2, "Ongoing", 1_700_000_000_000, 60_000, 1, (OUT,))
HANGING = Ends(TopicPartition("out", 1), 9, 4, Holder(99, None, None, 4))


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], Sight]]:
    """What the cluster says: the last of these, whoever asks."""
    answers: list[Callable[[], Sight]] = [lambda: Sight([OPEN], [Ends(OUT, 9, 4, Holder(7, "orders", 5, 4)), HANGING])]
    monkeypatch.setattr(kafka_watch, "ASK_S", 0.01)
    monkeypatch.setattr(open_transactions, "look", lambda _wire, _topics: answers[-1]())
    monkeypatch.setattr(kafka_watch, "measured", lambda _wire, readers: {key: {"clicks": 1455} for key in readers})
    return answers


@pytest.fixture
def watch(brokers: list[Callable[[], Sight]]) -> Iterator[KafkaWatch]:
    found = KafkaWatch(Cluster("broker:9092"))
    yield found
    found.close()


def test_transactions_and_holders_are_told_with_the_pipeline_whose_name_they_bear(
    watch: KafkaWatch, tmp_path: Path
) -> None:
    """I2."""
    home = MadeHome(tmp_path / "The Orders")
    home.epochs(1)
    page = Watch([home.path], watch)
    watch.wait(10)
    facts = page.kafka()
    assert facts is not None
    assert (facts.reachable, facts.error, facts.bootstrap) == (True, "", "broker:9092")
    (transaction,) = facts.transactions
    assert (transaction.transactional_id, transaction.pipeline) == ("orders", "the-orders")
    assert (transaction.partitions, transaction.began_at) == (["out/0"], "2023-11-14T22:13:20.000+00:00")
    assert transaction.seconds is not None
    assert transaction.seconds > 1e6
    known, hanging = facts.partitions
    assert (known.held_back, known.holder and known.holder.pipeline) == (5, "the-orders")
    assert hanging.holder is not None
    assert (hanging.holder.producer_id, hanging.holder.transactional_id, hanging.holder.pipeline) == (99, None, None)
    brief = page.overview().kafka
    assert brief is not None
    assert (brief.open_transactions, brief.held_back_partitions) == (1, 2)


def test_what_a_pipeline_without_a_driver_has_not_read_is_measured(
    watch: KafkaWatch, brokers: list[Callable[[], Sight]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2: never the 0 of its last life; and unknown while Kafka does not answer, or does not let us look."""
    dead, lives = MadeHome(tmp_path / "dead"), MadeHome(tmp_path / "lives", pipeline="lives")
    for home in (dead, lives):
        home.driven()
        home.epochs(3)
        home.says(state="running", lag={"clicks": 0})
    dead.holder(process_start="another")
    page = Watch([dead.path, lives.path], watch)

    def lags() -> dict[str, dict[str, int]]:
        found = page.find("dead")
        assert found is not None
        assert found.detail(now()).lag == watch.lag("dead")
        page._shown = None
        return {it.name: it.lag for it in page.overview().pipelines}

    eventually(lambda: lags() == {"orders": {"clicks": 1455}, "lives": {"clicks": 0}}, "it is measured", 10)
    (edge,) = [it for it in page.overview().graph.edges if (it.source, it.target) == ("topic:clicks", "pipeline:dead")]
    assert edge.lag == 1455

    def refuse(*_: object) -> NoReturn:
        raise BrokerRefused("not allowed to use the topic")

    with monkeypatch.context() as patched:
        patched.setattr(kafka_watch, "measured", refuse)
        eventually(lambda: lags()["orders"] == {}, "it is not known", 10)
        assert watch.facts().reachable
    eventually(lambda: lags()["orders"], "it is known again", 10)
    brokers.append(refuse)
    eventually(lambda: lags()["orders"] == {}, "it is not known", 10)


def test_a_broker_that_refuses_is_told_without_secrets_and_asked_again(
    watch: KafkaWatch, brokers: list[Callable[[], Sight]]
) -> None:
    """J4: what was seen last stays."""
    watch.wait(10)

    def refuse() -> Sight:
        raise BrokerUnreachable("no broker let us in: sasl.password=geheim")

    brokers.append(refuse)
    eventually(lambda: not watch.facts().reachable, "that it is out of reach", 10)
    assert watch.facts().error == "no broker let us in: sasl.password=***"
    assert len(watch.facts().transactions) == 1
    brokers.pop()
    eventually(lambda: watch.facts().reachable, "that it is back", 10)


def test_a_broker_that_hangs_holds_up_no_page(
    watch: KafkaWatch, brokers: list[Callable[[], Sight]], monkeypatch: pytest.MonkeyPatch
) -> None:
    watch.wait(10)
    over = threading.Event()
    brokers.append(lambda: (over.wait(60), Sight([], []))[1])
    monkeypatch.setattr(kafka_watch, "SILENT_S", 0.05)
    eventually(lambda: "no answer for" in watch.facts().error, "that it does not answer", 10)
    began = time.monotonic()
    assert not watch.facts().reachable
    assert time.monotonic() - began < 1
    over.set()


def test_brokers_are_left_alone_when_nobody_looks(
    watch: KafkaWatch, brokers: list[Callable[[], Sight]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []
    closed: list[int] = []
    monkeypatch.setattr(Wire, "close", lambda wire: closed.append(id(wire)))
    monkeypatch.setattr(kafka_watch, "UNASKED_S", -1.0)
    brokers.append(lambda: (asked.append(0), Sight([], []))[1])
    eventually(lambda: closed, "that its connections are closed", 10)
    count = len(asked)
    monkeypatch.setattr(kafka_watch, "UNASKED_S", 30.0)
    assert len(asked) == count
    watch.facts()
    eventually(lambda: len(asked) > count, "that it is asked again", 10)
