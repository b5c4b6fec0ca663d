"""A place to write to on a real broker, and another client's opinion of what lies there."""

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as Place
from kafka.protocol.admin.transactions import DescribeTransactionsRequest

from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.kafka.sender import Sender
from onceward.kafka.transaction import EpochTransaction, Identity
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import TRANSACTION, Cluster, Wire
from onceward.servers.broker import DevBroker
from support.leaders import payload

WAIT_S = 60.0


def pytest_configure(config: pytest.Config) -> None:
    # kafka-python leaves the sockets of refused connections to the garbage collector.
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


class Lab:
    """Names of its own on a shared broker."""

    def __init__(self, broker: DevBroker) -> None:
        self.broker = broker
        self.cluster = Cluster(broker.bootstrap)
        self.wire = Wire(self.cluster)
        self._open = [self.wire]
        self._readers: dict[str, Consumer] = {}

    def close(self) -> None:
        for wire in self._open:
            wire.close()
        for reader in self._readers.values():
            reader.close()

    def wire_of(self, kind: Callable[..., Wire], /, **options: Any) -> Wire:
        """A wire with habits."""
        wire = kind(self.cluster, **options)
        self._open.append(wire)
        return wire

    def name(self, prefix: str = "p") -> str:
        return f"{prefix}-{uuid.uuid4().hex[:10]}"

    def topic(self, partitions: int = 1, **settings: str) -> str:
        name = self.name("t")
        self.wire.create_topics([name], partitions, settings=settings)
        return name

    def transactor(self, pipeline: str | None = None, *, wire: Wire | None = None, timeout_ms: int = 60_000) -> Any:
        transactor = Transactor(wire or self.wire_of(Wire), pipeline or self.name(), timeout_ms)
        transactor.fence()
        return transactor

    def payload(self, *values: bytes) -> bytes:
        """A record batch that no producer owns yet."""
        return payload(*values, timestamp_ms=time.time_ns() // 1_000_000)  # an old one would fall to retention

    def write(
        self, wire: Wire, identity: Identity, transactional_id: str | None, rows: dict[TopicPartition, list[bytes]]
    ) -> Outcome:
        """Every row acknowledged, one batch per partition."""
        sender = Sender(wire, identity, transactional_id)
        for place, values in rows.items():
            sender.send(place, self.payload(*values), len(values))
        sender.flush()
        return self.outcome(rows)

    @staticmethod
    def outcome(rows: dict[TopicPartition, list[bytes]]) -> Outcome:
        return Outcome.of((place, PartitionOutcome(len(values), len(values))) for place, values in rows.items())

    def epoch(
        self,
        transactor: Transactor,
        number: int,
        rows: dict[TopicPartition, list[bytes]],
        *,
        positions: dict[TopicPartition, int] | None = None,
    ) -> EpochTransaction:
        """One whole epoch: records, marker, EndTxn."""
        transaction = transactor.begin(number)
        self.write(transactor.wire, transaction.identity, transactor.pipeline, rows)
        return self.commit(transactor, transaction, rows, positions=positions)

    def commit(
        self,
        transactor: Transactor,
        transaction: EpochTransaction,
        rows: dict[TopicPartition, list[bytes]],
        *,
        positions: dict[TopicPartition, int] | None = None,
    ) -> EpochTransaction:
        where = positions or dict.fromkeys(rows, transaction.epoch)
        ended = transactor.commit(transaction, positions=where, lineage="L", term=1, outcome=self.outcome(rows))
        # EndTxn answers before its end markers are written: a reader at that very moment sees nothing yet.
        self.eventually(lambda: "Prepare" not in self.state_of(transactor.pipeline), "the end markers")
        return ended

    def read(self, topic: str, *, committed: bool = True) -> list[list[bytes]]:
        """The values in each partition, in order, as librdkafka sees them now."""
        partitions = len(self.wire.topics([topic])[topic])
        reader = self._reader("read_committed" if committed else "read_uncommitted")
        reader.assign([Place(topic, number, 0) for number in range(partitions)])
        seen: list[list[bytes]] = [[] for _ in range(partitions)]
        ended: set[int] = set()
        deadline = time.monotonic() + WAIT_S
        while len(ended) < partitions:
            assert time.monotonic() < deadline, f"{topic} was not read to its end"
            message: Any = reader.poll(0.2)  # at once with the first; a batch would wait for its last
            if message is None:
                continue
            error = message.error()
            if error is None:
                seen[message.partition()].append(message.value())
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(message.partition())
        reader.unassign()
        return seen

    def _reader(self, isolation: str) -> Consumer:
        if isolation not in self._readers:
            settings: dict[str, Any] = {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": self.name("reader"),
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.queue.backoff.ms": 10,
                "fetch.wait.max.ms": 10,
            }
            self._readers[isolation] = Consumer(settings)
        return self._readers[isolation]

    def state_of(self, pipeline: str) -> str:
        """The transaction's state as the coordinator tells it: Empty, Ongoing, CompleteAbort, ..."""
        request = DescribeTransactionsRequest(transactional_ids=[pipeline])
        answer = self.wire.call_coordinator(pipeline, TRANSACTION, lambda: request)
        return str(answer.transaction_states[0].transaction_state)

    @staticmethod
    def eventually(condition: Callable[[], bool], what: str, within_s: float = WAIT_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"not in time: {what}"
            time.sleep(0.02)


@pytest.fixture(scope="session")
def lab(broker: DevBroker) -> Iterator[Lab]:
    lab = Lab(broker)
    yield lab
    lab.close()


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """On a broker that these tests may kill, pause and change; each leaves it running as it was."""
    with DevBroker(tmp_path_factory.mktemp("own"), port=0) as broker:
        lab = Lab(broker)
        yield lab
        lab.close()


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """On a broker that counts quotas over a second, where others count over ten."""
    settings = {"quota.window.num": "2"}
    with DevBroker(tmp_path_factory.mktemp("counting"), port=0, settings=settings) as broker:
        lab = Lab(broker)
        yield lab
        lab.close()
