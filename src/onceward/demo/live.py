"""How far the application is, while it runs: counts of visible records, as a downstream reader sees them."""

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, KafkaException, Message, TopicPartition

from onceward.demo.outputs import consumer, take

AT_ONCE_S: Final = 0.01  # some kills come just when records become visible


class Live(threading.Thread):
    """One reader of committed records over several topics; it stays all the time."""

    def __init__(self, bootstrap: str, topics: Iterable[str], partitions: int) -> None:
        super().__init__(name="demo-reader", daemon=True)
        self.counts: Counter[str] = Counter()
        self.failure: str | None = None
        self._brokers = bootstrap
        self._assigned = [TopicPartition(name, n, OFFSET_BEGINNING) for name in topics for n in range(partitions)]
        self._over = threading.Event()

    def run(self) -> None:
        try:
            with consumer(self._brokers) as reader:
                reader.assign(self._assigned)
                while not self._over.is_set():
                    take(reader, self._take, within_s=AT_ONCE_S)
        except KafkaException as error:
            self.failure = str(error)

    def end(self) -> None:
        self._over.set()
        self.join()

    def _take(self, message: Message) -> None:
        self.counts[str(message.topic())] += 1
