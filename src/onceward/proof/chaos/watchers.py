"""Consumers of another client library that watch the whole time: one sees what is committed, one sees everything.

What the first has seen once must be there at the end: it may never see what is aborted later. The second is the
control: it shows that there was something not to see.
"""

import threading
from collections.abc import Iterable
from typing import Any, Final

from onceward.proof.chaos.places import AT_ONCE, END_OF_PARTITION, POLL_S, ProofFailed, consumer, partitions

DEADLINE_S: Final = 180.0
ISOLATIONS: Final = ("read_committed", "read_uncommitted")


class Watcher(threading.Thread):
    """Reads topics as they grow."""

    def __init__(self, bootstrap: str, topics: Iterable[str], isolation: str) -> None:
        super().__init__(name=f"prove-watcher-{isolation}", daemon=True)
        self.seen: dict[tuple[str, int], dict[int, int]] = {}  # by topic and partition, by offset: a hash of the value
        self.twice: list[str] = []
        self._brokers, self._topics, self._isolation = bootstrap, tuple(topics), isolation
        self._over = threading.Event()
        self._failure: str | None = None

    def run(self) -> None:
        try:
            self._watch()
        except Exception as error:  # noqa: BLE001 - told by `end`
            self._failure = repr(error)

    def _watch(self) -> None:
        with consumer(self._brokers, self._isolation) as reader:
            reader.assign([place for topic in self._topics for place in partitions(reader, topic)])
            ended: set[tuple[str, int]] = set()
            while not self._over.is_set() or len(ended) < len(reader.assignment()):
                for message in reader.consume(AT_ONCE, POLL_S):
                    place = (message.topic(), message.partition())
                    if message.error() is None:
                        self._take(message)
                        ended.discard(place)
                    elif message.error().code() == END_OF_PARTITION:
                        ended.add(place)

    def end(self) -> None:
        """Read to the end of what is there, then stop."""
        self._over.set()
        self.join(DEADLINE_S)
        if self._failure is not None:
            raise ProofFailed(f"a {self._isolation} consumer failed, and saw nothing from then on: {self._failure}")
        if self.is_alive():
            raise ProofFailed(f"a {self._isolation} consumer does not get to the end within {DEADLINE_S:.0f} s")

    @property
    def count(self) -> int:
        return sum(map(len, self.seen.values()))

    def _take(self, message: Any) -> None:
        offsets = self.seen.setdefault((message.topic(), message.partition()), {})
        if message.offset() in offsets and offsets[message.offset()] != hash(message.value()):
            self.twice.append(f"{message.topic()}-{message.partition()}@{message.offset()} changed its value")
        offsets[message.offset()] = hash(message.value())
