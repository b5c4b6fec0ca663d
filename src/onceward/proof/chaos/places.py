"""Where a proven job finds its world: the addresses it is pointed at, and what a judge reads there.

A user's file gets one of these, twice: its `build` in the job's process (addresses that lead through proxies), and its
`visible` in the judge's process (direct ones).
"""

import itertools
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from onceward.errors import ConfigurationError, OncewardError

VARIABLE: Final = "ONCEWARD_PROVE"
SPARK: Final = "spark"  # instead of a guarantee: Spark's own Kafka sink
AT_ONCE: Final = 5_000
POLL_S: Final = 0.2
END_OF_PARTITION: Final = -191  # librdkafka's code for it


class ProofFailed(OncewardError):
    """The proof could not be carried through; nothing is said about the guarantee."""


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses and choices of a run."""

    bootstrap: str  # Kafka's brokers
    dsn: str | None  # PostgreSQL; None if the run has none
    folder: Path  # for homes, files and tables: nothing is there at the beginning
    sinks: tuple[str, ...] = ()  # of the built-in job
    guarantee: str = "exactly-once"
    over_tasks: bool = False  # sinks write from Spark's tasks, however small an epoch is

    @classmethod
    def here(cls) -> Self:
        """Of this process, which `onceward prove` has started."""
        text = os.environ.get(VARIABLE)
        if text is None:
            raise ConfigurationError(f"{VARIABLE} is not set: this runs below `onceward prove`")
        return msgspec.json.decode(text, type=cls, dec_hook=lambda kind, value: kind(value))

    @property
    def text(self) -> str:
        return msgspec.json.encode(self, enc_hook=str).decode()

    def topic(self, name: str) -> list[tuple[str | None, str | None]]:
        """Key and value of every committed record, partition by partition in order."""
        return [(_text(message.key()), _text(message.value())) for message in read_topic(self.bootstrap, name)]

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        import psycopg

        if self.dsn is None:
            raise ConfigurationError("this run has no PostgreSQL: add postgres to --sinks")
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(statement.encode()).fetchall()


def read_topic(bootstrap: str, topic: str, *, deadline_s: float = 120.0) -> Iterator[Any]:
    """Every committed record of a topic as another client library sees it, partition by partition."""
    with consumer(bootstrap, "read_committed") as reader:
        places = partitions(reader, topic)
        seen: dict[int, list[Any]] = {place.partition: [] for place in places}
        reader.assign(places)
        ended: set[int] = set()
        until = time.monotonic() + deadline_s
        while len(ended) < len(places):
            if time.monotonic() > until:
                raise ProofFailed(f"topic {topic!r} could not be read to its end within {deadline_s:.0f} s")
            for message in reader.consume(AT_ONCE, POLL_S):
                error = message.error()
                if error is None:
                    seen[message.partition()].append(message)
                elif error.code() == END_OF_PARTITION:
                    ended.add(message.partition())
    return itertools.chain.from_iterable(seen[number] for number in sorted(seen))


@contextmanager
def consumer(bootstrap: str, isolation: str, group: str | None = None) -> Iterator[Any]:
    """A reader that shares no line with our own client. `group`: whose offsets it may look at."""
    from confluent_kafka import Consumer

    made = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group or f"onceward-prove-{uuid.uuid4().hex}",  # asked for, though nothing is committed
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,  # its default lets records lie for up to a second
            "fetch.wait.max.ms": 100,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )
    try:
        yield made
    finally:
        made.close()


def partitions(reader: Any, topic: str) -> list[Any]:
    """All of a topic, from the beginning."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    known = reader.list_topics(topic, timeout=30).topics[topic].partitions
    return [TopicPartition(topic, number, OFFSET_BEGINNING) for number in sorted(known)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("utf-8", "replace")
