"""Feeds records and prices while the application runs, so that every kill falls into a flow of events."""

import json
import math
import threading
import time
from dataclasses import dataclass
from typing import Final

import psycopg
from confluent_kafka import KafkaError, Message, Producer

from onceward.apps.ads import words
from onceward.apps.ads.world.generator import Generated
from onceward.apps.ads.world.records import Record
from onceward.apps.ads.world.tables import announce

TICK_S: Final = 0.05
EASE_S: Final = 15.0  # about what a start of the application takes
LAST_PHASE_S: Final = 5.0
FLUSH_S: Final = 60.0
AT_ONCE: Final = 5_000  # records between two looks at whether to end
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
    """An idempotent producer: each record is in its topic once, with the time of its arrival as its timestamp.

    A price is in the database before the first record that arrives while it is valid.
    """

    def __init__(self, bootstrap: str, dsn: str, made: Generated, *, kills: int) -> None:
        super().__init__(name="demo-feeder", daemon=True)
        self.fed = 0  # acknowledged by the broker
        self.failure: str | None = None
        self._dsn = dsn
        self._records = [*made.records, heartbeat(made.end_ms + CLOSING_MS)]
        self._prices = list(made.catalogue.prices)
        self._announced = 0
        self._kills = kills
        self._phases = 0
        self._sent = 0
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 10,
                "queue.buffering.max.messages": 1_000_000,
                "message.timeout.ms": 300_000,  # a killed broker comes back
                "log_level": 0,
            }
        )
        self.next_phase()

    @property
    def total(self) -> int:
        return len(self._records)

    def next_phase(self) -> None:
        """A kill has happened (or the first start is near)."""
        with self._turn:
            self._phases += 1
            share = min(self._phases / (self._kills + 1), 1)
            self._phase = Phase(self._sent, round(self.total * share), final=self._phases > self._kills)
            self._phase_began = time.monotonic()

    def run(self) -> None:
        try:
            with psycopg.connect(self._dsn, autocommit=True) as connection:
                while self._sent < self.total and not self._over.is_set():
                    with self._turn:
                        due = self._phase.due(time.monotonic() - self._phase_began)
                    until = min(due, self._sent + AT_ONCE)
                    for record in self._records[self._sent : until]:
                        self._send(connection, record)
                    self._sent = max(self._sent, until)
                    self._producer.poll(0)
                    if until == due:
                        self._over.wait(TICK_S)
            self._producer.flush(FLUSH_S)
        except psycopg.Error as error:
            self.failure = str(error)

    def end(self) -> None:
        self._over.set()
        self.join()

    def _send(self, connection: "psycopg.Connection[tuple[object, ...]]", record: Record) -> None:
        while self._announced < len(self._prices) and self._prices[self._announced].valid_from_ms <= record.arrived_ms:
            announce(connection, self._prices[self._announced])
            self._announced += 1
        while not self._produced(record):  # its queue is full, as the broker is away
            self._producer.poll(TICK_S)

    def _produced(self, record: Record) -> bool:
        try:
            self._producer.produce(
                record.topic,
                key=record.key,
                value=record.value,
                timestamp=record.arrived_ms,
                on_delivery=self._delivered,
            )
        except BufferError:
            return False
        return True

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.fed += 1
        else:
            self.failure = str(error)


def heartbeat(at_ms: int) -> Record:
    """Time has passed, and nothing happened: what is waiting for time alone is given out."""
    name = f"heartbeat-{at_ms}"
    value = json.dumps({"id": name, "type": words.HEARTBEAT, "at": at_ms}).encode("ascii")
    return Record(words.AD_EVENTS_RAW, name.encode("ascii"), value, at_ms)
