"""What a reader sees: confluent-kafka, a client that shares no line with ours, in read_committed."""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from onceward.demo.events import Booking
from onceward.demo.process import DemoFailed
from onceward.demo.topics import PARTITIONS

POLL_S: Final = 0.2
AT_ONCE: Final = 2_000
READ_TIMEOUT_S: Final = 120.0  # 40,000 records take less than a second


def read_to_end(bootstrap: str, topic: str) -> list[Booking | None]:
    """Every visible record of the topic, for a reader that was never there before."""
    seen: list[Booking | None] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + READ_TIMEOUT_S
    _read(
        bootstrap,
        topic,
        lambda message: seen.append(_decode(message)),
        at_end=ended.add,
        until=lambda: len(ended) == PARTITIONS or time.monotonic() > deadline,
    )
    if len(ended) < PARTITIONS:
        raise DemoFailed(f"topic {topic!r} could not be read to its end within {READ_TIMEOUT_S:.0f} s")
    return seen


class LiveReader(threading.Thread):
    """A reader that is there all the time, as a downstream service would be."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(name=f"demo-reader-{topic}", daemon=True)
        self.records: list[Booking | None] = []
        self.ids: set[str] = set()
        self.failure: str | None = None
        self._brokers = bootstrap
        self._topic = topic
        self._over = threading.Event()

    def run(self) -> None:
        try:
            _read(self._brokers, self._topic, self._take, at_end=lambda _: None, until=self._over.is_set)
        except KafkaException as error:
            self.failure = str(error)

    def end(self) -> None:
        self._over.set()
        self.join()

    def _take(self, message: Message) -> None:
        booking = _decode(message)
        if booking is not None:
            self.ids.add(booking.id)
        self.records.append(booking)


def _decode(message: Message) -> Booking | None:
    return Booking.decode(message.key(), message.value())


def _read(
    bootstrap: str,
    topic: str,
    take: Callable[[Message], None],
    *,
    at_end: Callable[[int | None], None],
    until: Callable[[], bool],
) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"demo-reader-{uuid.uuid4().hex}",  # asked for, though nothing is committed
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,  # its default lets records lie for up to a second
            "fetch.wait.max.ms": 100,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        while not until():
            for message in consumer.consume(AT_ONCE, POLL_S):
                error = message.error()
                if error is None:
                    take(message)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - that is its public name
                    at_end(message.partition())
                elif error.fatal():
                    raise KafkaException(error)
    finally:
        consumer.close()
