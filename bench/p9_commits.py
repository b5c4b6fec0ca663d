"""P9, commits: how long one takes over 1, 4, 16 and 64 partitions, and how many there are in a second.

Ours is the epoch's marker and EndTxn. Beside it EndTxn alone over the same wire, and librdkafka's commit_transaction.
A transaction has a hundred records in each partition.
"""

import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
from confluent_kafka import Producer

from bench.broker import QUIET
from bench.rounds import Outcome, Subject
from bench.stage import Stage
from onceward.epoch.outcome import Outcome as Epochs
from onceward.epoch.outcome import TopicPartition
from onceward.kafka.codes import Meaning
from onceward.kafka.records import Columns, Compression, encode
from onceward.kafka.requests import Requests
from onceward.kafka.sender import Sender
from onceward.kafka.transaction import Identity, State
from onceward.kafka.transactor import Transactor
from onceward.kafka.wire import Cluster, Wire

TITLE = "Commits over 1, 4, 16 and 64 partitions"
BASE = "EndTxn alone"
PER_PARTITION = 100
WARM_UP = 10
TIMEOUT_MS = 60_000
Times = tuple[list[float], float]  # milliseconds of each commit, and seconds of the whole


def run(stage: Stage) -> None:
    count = 30 if stage.options.short else 100
    for partitions in (1, 4, 16, 64):
        with ExitStack() as stack:
            ways: dict[str, Ours | Theirs] = {
                "onceward": Ours(stage.bootstrap, partitions, marked=True),
                "EndTxn alone": Ours(stage.bootstrap, partitions, marked=False),
                "librdkafka": Theirs(stage.bootstrap, partitions),
            }
            subjects = []
            for name, way in ways.items():
                topic = stage.topics.new(partitions)
                stack.callback(way.close)
                stack.callback(stage.topics.drop, topic)
                way.begin(topic)
                way.commits(WARM_UP)
                subjects.append(Subject(name, _measured(stage, way, count)))
            stage.rounds.interleave(f"{partitions} partitions", subjects, stage.options.rounds or 5)


def _measured(stage: Stage, way: "Ours | Theirs", count: int) -> Callable[[], Outcome]:
    done = WARM_UP

    def once() -> Outcome:
        nonlocal done
        times, seconds = way.commits(count)
        done += count
        metrics = {
            "commit ms, median": float(np.median(times)),
            "commit ms, p95": float(np.percentile(times, 95)),
            "commits/s": count / seconds,
        }
        return Outcome(metrics, check=check)

    def check() -> list[str]:
        """Each partition has its records, and one note of the end of each transaction."""
        expected = done * (PER_PARTITION + 1) * way.partitions
        found = stage.topics.end(way.topic, way.partitions, expected)
        return [] if found == expected else [f"the partitions end at {found:,}, not at {expected:,}"]

    return once


class Ours:
    """Our own wire; with the marker as an epoch has it, or with EndTxn alone."""

    def __init__(self, bootstrap: str, partitions: int, *, marked: bool) -> None:
        self.partitions, self.marked, self.topic = partitions, marked, ""
        self._wire = Wire(Cluster(bootstrap))
        self._name = f"commits-{uuid.uuid4().hex[:8]}"
        self._transactor = Transactor(self._wire, self._name, TIMEOUT_MS)
        self._requests = Requests(self._wire, self._name)
        self._rows = np.arange(PER_PARTITION * partitions)
        self._columns = Columns(value=pa.array([b"v" * 100] * len(self._rows), pa.binary()))
        self._routes = (self._rows % partitions).astype(np.int32)
        self._epoch = 0

    def begin(self, topic: str) -> None:
        self.topic = topic
        self._identity = self._transactor.fence()

    def commits(self, count: int) -> Times:
        times, began = [], time.perf_counter()
        for _ in range(count):
            self._epoch += 1
            transaction = self._transactor.begin(self._epoch) if self.marked else None
            identity = transaction.identity if transaction is not None else self._identity
            self._produce(identity)
            asked = time.perf_counter()
            if transaction is None:
                self._end()
            else:
                positions = {TopicPartition(self.topic, it): self._epoch for it in range(self.partitions)}
                outcome = Epochs(rows=len(self._rows))
                ended = self._transactor.commit(
                    transaction, positions=positions, lineage="bench", term=1, outcome=outcome
                )
                assert ended.state is State.COMMITTED
            times.append((time.perf_counter() - asked) * 1000)
        return times, time.perf_counter() - began

    def _produce(self, identity: Identity) -> None:
        sender = Sender(self._wire, identity, self._name)
        for batch in encode(
            self._columns, self._routes, self._rows,
            compression=Compression.NONE, max_batch_bytes=10**6, timestamp_ms=self._epoch,
        ):  # fmt: skip
            sender.send(TopicPartition(self.topic, batch.route), batch.payload, batch.count)
        sender.flush()

    def _end(self) -> None:
        code, identity = self._requests.end(self._identity, commit=True)
        assert code.meaning is Meaning.ACCEPTED, code.name
        assert identity is not None
        self._identity = identity

    def close(self) -> None:
        self._wire.close()


class Theirs:
    """A raw transaction client."""

    def __init__(self, bootstrap: str, partitions: int) -> None:
        self.partitions, self.topic = partitions, ""
        self._producer = Producer({
            "bootstrap.servers": bootstrap,
            "transactional.id": f"commits-{uuid.uuid4().hex[:8]}",
            "linger.ms": 0,
            **QUIET,
        })  # fmt: skip

    def begin(self, topic: str) -> None:
        self.topic = topic
        self._producer.init_transactions(30)

    def commits(self, count: int) -> Times:
        times, began = [], time.perf_counter()
        for _ in range(count):
            self._producer.begin_transaction()
            for partition in range(self.partitions):
                for _ in range(PER_PARTITION):
                    self._producer.produce(self.topic, value=b"v" * 100, partition=partition)
            self._producer.flush(30)
            asked = time.perf_counter()
            self._producer.commit_transaction(30)
            times.append((time.perf_counter() - asked) * 1000)
        return times, time.perf_counter() - began

    def close(self) -> None:
        self._producer.flush(5)
