"""Feeds the payments while the job runs, so that every kill falls into a flow of events."""

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from onceward.demo.events import Payment
from onceward.demo.topics import PAYMENTS

TICK_S: Final = 0.05
EASE_S: Final = 15.0  # about what a start of the job takes
LAST_PHASE_S: Final = 5.0
FLUSH_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Phase:
    """The time between two kills. Each has its share of the events, so that none finds the feed run dry."""

    first: int  # events fed before it
    last: int  # events fed when it is used up
    final: bool  # no kill follows

    def due(self, elapsed_s: float) -> int:
        """How many events should be out after so long: less and less per second, as nobody knows the next kill."""
        part = min(elapsed_s / LAST_PHASE_S, 1) if self.final else 1 - math.exp(-elapsed_s / EASE_S)
        return self.first + round((self.last - self.first) * part)


class Feeder(threading.Thread):
    """An idempotent producer: each payment is in the topic once, in its account's order."""

    def __init__(self, bootstrap: str, payments: Sequence[Payment], *, kills: int) -> None:
        super().__init__(name="demo-feeder", daemon=True)
        self.fed = 0  # acknowledged by the broker
        self.failure: str | None = None
        self._payments = payments
        self._kills = kills
        self._phases = 0
        self._sent = 0
        self._turn = threading.Lock()
        self._over = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 10, "log_level": 0}
        )
        self.next_phase()

    def next_phase(self) -> None:
        """A kill has happened (or the first start is near)."""
        with self._turn:
            self._phases += 1
            share = min(self._phases / (self._kills + 1), 1)
            self._phase = Phase(self._sent, round(len(self._payments) * share), final=self._phases > self._kills)
            self._phase_began = time.monotonic()

    def run(self) -> None:
        while self._sent < len(self._payments) and not self._over.is_set():
            with self._turn:
                due = self._phase.due(time.monotonic() - self._phase_began)
                for payment in self._payments[self._sent : due]:
                    self._producer.produce(
                        PAYMENTS, key=payment.account, value=payment.encode(), on_delivery=self._delivered
                    )
                self._sent = max(self._sent, due)
            self._producer.poll(0)
            self._over.wait(TICK_S)
        self._producer.flush(FLUSH_S)

    def end(self) -> None:
        self._over.set()
        self.join()

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.fed += 1
        else:
            self.failure = str(error)
