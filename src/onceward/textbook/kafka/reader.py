"""What a reader of a topic sees now, through a client that shares no line with our own.

confluent-kafka where it is installed (`onceward[demo]`), else kafka-python's consumer.
"""

import time
import uuid
from abc import ABC, abstractmethod
from contextlib import closing
from importlib.util import find_spec
from typing import Final, Literal

from onceward.epoch.outcome import TopicPartition
from onceward.errors import BrokerUnreachable

Isolation = Literal["read_committed", "read_uncommitted"]

DEADLINE_S: Final = 20.0
POLL_S: Final = 0.1
FETCH_WAIT_MS: Final = 10  # nobody writes while a story reads: there is nothing to wait for


class Reader(ABC):
    """Reads a partition from its beginning to where it ends for this isolation level."""

    @abstractmethod
    def read(self, place: TopicPartition, start: int = 0) -> list[str]: ...

    @abstractmethod
    def close(self) -> None: ...


def reader(bootstrap: str, isolation: Isolation) -> Reader:
    return _Confluent(bootstrap, isolation) if find_spec("confluent_kafka") else KafkaPython(bootstrap, isolation)


def read(bootstrap: str, place: TopicPartition, isolation: Isolation = "read_committed", start: int = 0) -> list[str]:
    """What a reader that was never there before sees from `start` on."""
    with closing(reader(bootstrap, isolation)) as fresh:
        return fresh.read(place, start)


class _Confluent(Reader):
    def __init__(self, bootstrap: str, isolation: Isolation) -> None:
        from confluent_kafka import Consumer

        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"textbook-{uuid.uuid4().hex}",  # asked for, though nothing is committed
                "isolation.level": isolation,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": FETCH_WAIT_MS,
                "fetch.queue.backoff.ms": FETCH_WAIT_MS,  # its default lets records lie for up to a second
                "log_level": 0,
            }
        )

    def read(self, place: TopicPartition, start: int = 0) -> list[str]:
        from confluent_kafka import TopicPartition as Assigned

        deadline, found = time.monotonic() + DEADLINE_S, list[str]()
        assigned = Assigned(place.topic, place.partition, start)
        self._consumer.get_watermark_offsets(assigned, DEADLINE_S)  # asks for the leader now, not after a second
        self._consumer.assign([assigned])
        while time.monotonic() < deadline:
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            if (error := message.error()) is None:
                found.append((message.value() or b"").decode())
            elif error.name() == "_PARTITION_EOF":
                return found
        raise _unread(place)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Reader):
    def __init__(self, bootstrap: str, isolation: Isolation) -> None:
        from kafka.consumer import KafkaConsumer

        self._consumer = KafkaConsumer(
            bootstrap_servers=bootstrap,
            isolation_level=isolation,
            enable_auto_commit=False,
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )

    def read(self, place: TopicPartition, start: int = 0) -> list[str]:
        from kafka.structs import TopicPartition as Assigned

        deadline, found, assigned = time.monotonic() + DEADLINE_S, list[str](), Assigned(place.topic, place.partition)
        self._consumer.assign([assigned])
        self._consumer.seek(assigned, start)
        end = self._consumer.end_offsets([assigned])[assigned]
        while self._consumer.position(assigned) < end:
            records = self._consumer.poll(timeout_ms=POLL_S * 1000).get(assigned, [])
            found += [record.value.decode() for record in records]
            if time.monotonic() > deadline:
                raise _unread(place)
        return found

    def close(self) -> None:
        self._consumer.close()


def _unread(place: TopicPartition) -> BrokerUnreachable:
    return BrokerUnreachable(f"{place} could not be read to its end within {DEADLINE_S:.0f} s")
