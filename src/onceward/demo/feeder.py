"""Feeds records and prices while the application runs, so that every kill falls into a flow of events."""

import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import psycopg
from confluent_kafka import KafkaError, KafkaException, Producer

from onceward.apps.ads import words
from onceward.apps.ads.world.generator import Generated
from onceward.apps.ads.world.records import Record
from onceward.apps.ads.world.tables import announce

TICK_S: Final = 0.2
EASE_S: Final = 15.0  # about what a start of the application takes
LAST_PHASE_S: Final = 5.0
ANSWER_S: Final = 1.0  # for one try of a step; a killed broker comes back
AT_ONCE: Final = 5_000  # records of a transaction
TIMEOUT_MS: Final = 300_000
# After the last event: far enough for every window and every order to be given out.
CLOSING_MS: Final = 2 * (words.WATERMARK_MS + words.WINDOW_MS)


@dataclass(frozen=True, slots=True)
class Phase:
    """The time between two kills. Each has its share of the records, so that none finds the feed run dry."""

    first: int  # records fed before it
    last: int  # records fed when it is used up
    final: bool  # no kill follows

    def due(self, elapsed_s: float) -> int:
        """How many records should be out after so long: less and less per second, as nobody knows the next kill."""
        part = min(elapsed_s / LAST_PHASE_S, 1) if self.final else 1 - math.exp(-elapsed_s / EASE_S)
        return self.first + round((self.last - self.first) * part)


class Feeder(threading.Thread):
    """Each record is in its topic once, with the time of its arrival as its timestamp.

    In transactions: an idempotent producer alone would not do. A broker forgets a producer by the timestamps of its
    records, and takes one for new that it finds with old ones when it starts again.
    A price is in the database before the first record that arrives while it is valid.
    The last record, a heartbeat, ends every window. It waits for `close`: the partitions of a transaction become
    visible one after the other, and a reader that saw the heartbeat before an event of the same transaction would find
    that event far behind its watermark.
    """

    def __init__(self, bootstrap: str, dsn: str, made: Generated, *, kills: int) -> None:
        super().__init__(name="demo-feeder", daemon=True)
        self.fed = 0  # committed
        self.failure: str | None = None
        self._dsn = dsn
        self._records = made.records
        self._closing = heartbeat(made.end_ms + CLOSING_MS)
        self._prices = list(made.catalogue.prices)
        self._announced = 0
        self._kills = kills
        self._phases = 0
        self._turn = threading.Lock()
        self._close = threading.Event()
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"demo-feeder-{uuid.uuid4()}",
                "transaction.timeout.ms": TIMEOUT_MS,
                "message.timeout.ms": TIMEOUT_MS,
                "linger.ms": 10,
                "log_level": 0,
            }
        )
        self.next_phase()

    @property
    def total(self) -> int:
        return len(self._records) + 1

    @property
    def all_but_closed(self) -> bool:
        """Every event is in its topic."""
        return self.fed >= len(self._records)

    def next_phase(self) -> None:
        """A kill has happened (or the first start is near)."""
        with self._turn:
            self._phases += 1
            share = min(self._phases / (self._kills + 1), 1)
            self._phase = Phase(self.fed, round(len(self._records) * share), final=self._phases > self._kills)
            self._phase_began = time.monotonic()

    def run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                self._insist(lambda: self._producer.init_transactions(ANSWER_S))
                while not self.all_but_closed and not self._over.is_set():
                    with self._turn:
                        due = self._phase.due(time.monotonic() - self._phase_began)
                    until = min(due, self.fed + AT_ONCE)
                    if until > self.fed:
                        records = self._records[self.fed : until]
                        self._announce_until(connection, records[-1].arrived_ms)
                        while not self._sent(records):
                            pass
                        self.fed = until
                    if until == due:
                        self._over.wait(TICK_S)
                self._close.wait()
                if not self._over.is_set():
                    while not self._sent([self._closing]):
                        pass
                    self.fed = self.total
        except (psycopg.Error, KafkaException) as error:
            self.failure = str(error)
        except Interrupted:
            pass

    def close(self) -> None:
        """Every event has been read: time may pass."""
        self._close.set()

    def end(self) -> None:
        self._over.set()
        self._close.set()
        self.join()

    def _announce_until(self, connection: "psycopg.Connection[tuple[object, ...]]", arrived_ms: int) -> None:
        while self._announced < len(self._prices) and self._prices[self._announced].valid_from_ms <= arrived_ms:
            announce(connection, self._prices[self._announced])
            self._announced += 1

    def _sent(self, records: Sequence[Record]) -> bool:
        """In one transaction; if it must be aborted, nothing of it was ever there."""
        try:
            self._producer.begin_transaction()
            for record in records:
                self._producer.produce(record.topic, key=record.key, value=record.value, timestamp=record.arrived_ms)
            self._insist(lambda: self._producer.commit_transaction(ANSWER_S))
        except KafkaException as error:
            if not _told(error).txn_requires_abort():
                raise
            self._insist(lambda: self._producer.abort_transaction(ANSWER_S))
            return False
        return True

    def _insist(self, step: Callable[[], None]) -> None:
        """Again and again while the broker is away."""
        while True:
            if self._over.is_set():
                raise Interrupted
            try:
                return step()
            except KafkaException as error:
                if not _told(error).retriable():
                    raise


class Interrupted(Exception):
    """The demo ends while the broker does not answer."""


def _told(error: KafkaException) -> KafkaError:
    told = error.args[0]
    assert isinstance(told, KafkaError)
    return told


def heartbeat(at_ms: int) -> Record:
    """Time has passed, and nothing happened: what is waiting for time alone is given out."""
    name = f"heartbeat-{at_ms}"
    value = json.dumps({"id": name, "type": words.HEARTBEAT, "at": at_ms}).encode("ascii")
    return Record(words.AD_EVENTS_RAW, name.encode("ascii"), value, at_ms)
