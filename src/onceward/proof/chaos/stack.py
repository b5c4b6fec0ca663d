"""What a chaos run breaks: Kafka and PostgreSQL of its own, each also behind a proxy.

The job under test comes through the proxies and is told to stay there; feeders and judges go straight to the servers.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from kafka.protocol.metadata import MetadataRequest

from onceward.errors import BrokerUnreachable
from onceward.kafka.wire import AnswerLost, Cluster, Wire
from onceward.proof.chaos.kafka_proxy import KafkaProxy
from onceward.proof.chaos.proxy import HOST, Proxy
from onceward.servers.broker import Detour, DevBroker
from onceward.servers.broker.layout import free_ports
from onceward.servers.postgres import PostgresServer

HEAL_TIMEOUT_S: Final = 60.0  # a node that was away fetches what it missed, one partition after the other
POLL_S: Final = 0.05


class Stack:
    """Servers and proxies; none outlives this process, even if that is killed."""

    broker: DevBroker
    kafka_proxies: tuple[KafkaProxy, ...]  # of node 1, 2, ...
    postgres: PostgresServer | None
    postgres_proxy: Proxy | None

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 1,
        postgres: bool = True,
        settings: Mapping[str, str] | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`settings`: of the brokers."""
        self._folder, self._report = folder, report
        self._brokers, self._with_postgres, self._settings = brokers, postgres, settings
        self._open = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.postgres = self.postgres_proxy = None
            if self._with_postgres:  # first: if its package is missing, that is said at once
                self._report("starting PostgreSQL")
                self.postgres = opened.enter_context(PostgresServer())
                self.postgres_proxy = opened.enter_context(Proxy(HOST, self.postgres.port))
            listeners = free_ports(self._brokers)
            self.kafka_proxies = tuple(opened.enter_context(KafkaProxy(HOST, port)) for port in listeners)
            self.broker = DevBroker(
                self._folder / "kafka",
                port=0,
                brokers=self._brokers,
                settings=self._settings,
                detours=[Detour(proxy.target[1], proxy.port) for proxy in self.kafka_proxies],
                report=self._report,
            )
            opened.enter_context(self.broker)
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    @property
    def proxied_bootstrap(self) -> str:
        return ",".join(f"{HOST}:{proxy.port}" for proxy in self.kafka_proxies)

    @property
    def dsn(self) -> str | None:
        return None if self.postgres is None else self.postgres.dsn()

    @property
    def proxied_dsn(self) -> str | None:
        if self.postgres is None or self.postgres_proxy is None:
            return None
        return self.postgres.dsn(port=self.postgres_proxy.port)

    def heal(self) -> None:
        """Every server runs, nothing is in the way; returns when all serve and every replica is in sync."""
        for proxy in (*self.kafka_proxies, *filter(None, [self.postgres_proxy])):
            proxy.mend()
        if self.postgres is not None:
            self.postgres.resume()
            self.postgres.start()
        for node in self.broker.layout.nodes:
            if self.broker.pid(node):
                self.broker.resume(node)  # also one that was told to pause and has not done so yet
        self.broker.start()
        self._await_replicas()

    def _await_replicas(self) -> None:
        wire = Wire(Cluster(self.bootstrap))
        deadline = time.monotonic() + HEAL_TIMEOUT_S
        try:
            while behind := self._behind(wire):
                if time.monotonic() > deadline:
                    raise BrokerUnreachable(f"not in sync after {HEAL_TIMEOUT_S:.0f} s: {', '.join(behind[:10])}")
                time.sleep(POLL_S)
        finally:
            wire.close()

    @staticmethod
    def _behind(wire: Wire) -> list[str]:
        """The partitions without a leader, or with a replica that has not caught up."""
        try:
            answer = wire.call(wire.any_node(), MetadataRequest(topics=None, allow_auto_topic_creation=False))
        except AnswerLost as lost:
            return [str(lost)]
        return [
            f"{topic.name}-{partition.partition_index}"
            for topic in answer.topics
            for partition in topic.partitions
            if partition.leader_id == -1 or len(partition.isr_nodes) < len(partition.replica_nodes)
        ]
