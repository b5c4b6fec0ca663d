"""An open loop: records are sent on schedule, whatever the pipeline does, and each carries when it was due.

A loop that waits for its own records sends less while the pipeline is slow, and so measures too little.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer, TopicPartition

from bench.broker import PARTITIONS, consumer
from bench.machine import ROOT
from bench.rounds import Failed

SIZE = 90
KEYS = 1000
NUMBER = slice(0, 10)
DUE = slice(10, 27)  # seconds since 1970, six digits after the point
UNBOUNDED = {"queue.buffering.max.messages": 0}  # while the broker does not keep up, records wait here
DRAIN_S = 60.0  # what has not arrived so long after the last record was due is lost


def value(number: int, due: float) -> bytes:
    return f"{number:010d}{due:017.6f}".ljust(SIZE, ".").encode()


def feed(bootstrap: str, topic: str, rate: int, seconds: float) -> None:
    """What is due is sent at once; a feeder that was held up catches up, and its records say when they were due."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "acks": "all", **UNBOUNDED})
    began = time.time()
    for number in range(int(rate * seconds)):
        due = began + number / rate
        while (wait := due - time.time()) > 0:
            producer.poll(0)
            time.sleep(min(wait, 0.001))
        producer.produce(topic, key=b"k%d" % (number % KEYS), value=value(number, due))
        if number % 100 == 0:
            producer.poll(0)
    producer.flush(30)


@contextmanager
def feeding(bootstrap: str, topic: str, rate: int, seconds: float) -> Iterator[None]:
    """In a process of its own: this one reads."""
    command = [sys.executable, "-m", "bench.open_loop", bootstrap, topic, str(rate), str(seconds)]
    feeder = subprocess.Popen(command, cwd=ROOT)
    try:
        yield
        if feeder.wait(DRAIN_S) != 0:
            raise Failed("the feeder failed")
    finally:
        feeder.kill()
        feeder.wait()


@dataclass(slots=True)
class Arrivals:
    """(due, seen) of each record, in order of arrival, and what was wrong with them."""

    expected: int
    pairs: list[tuple[float, float]] = field(default_factory=list)
    doubled: int = 0
    unordered: int = 0
    _numbers: set[int] = field(default_factory=set)
    _last: dict[bytes, int] = field(default_factory=dict)

    def take(self, key: bytes, text: bytes, now: float) -> None:
        number = int(text[NUMBER])
        if number in self._numbers:
            self.doubled += 1
            return
        self._numbers.add(number)
        if self._last.get(key, -1) > number:
            self.unordered += 1
        self._last[key] = number
        self.pairs.append((float(text[DUE]), now))

    def wrong(self) -> list[str]:
        lost = self.expected - len(self.pairs)
        counts = {"records are missing": lost, "records came twice": self.doubled, "came out of order": self.unordered}
        return [f"{count:,} of {self.expected:,} {what}" for what, count in counts.items() if count]


class Reader:
    """Sees records as soon as they are visible, through another client library."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._reader = consumer(bootstrap, topic, {"fetch.queue.backoff.ms": 5, "fetch.wait.max.ms": 10})
        self._reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])

    def take(self, into: Arrivals) -> None:
        messages = self._reader.consume(1000, 0.005)
        now = time.time()
        for message in messages:
            if message.error() is None:
                into.take(message.key() or b"", message.value() or b"", now)

    def close(self) -> None:
        self._reader.close()


if __name__ == "__main__":
    feed(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
