"""Feeds the job while it is being killed, so that every fault falls into a flow of events."""

import threading
import time
from collections.abc import Iterator
from typing import Any, Final

TICK_S: Final = 0.05
FLUSH_S: Final = 180.0


class Feeder(threading.Thread):
    """An idempotent producer: each event is in its topic once, in its key's order, whatever brokers do."""

    def __init__(self, bootstrap: str, events: Iterator[tuple[str, Any, Any]], *, per_second: int) -> None:
        super().__init__(name="prove-feeder", daemon=True)
        from confluent_kafka import Producer

        self.fed: list[tuple[str, Any, Any]] = []  # handed to the producer, in order
        self.acknowledged = 0
        self.failure: str | None = None
        self._events = events
        self._per_second = per_second
        self._over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": 0,  # never gives up: brokers are killed on purpose
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        began, due = time.monotonic(), 0
        while not self._over.wait(TICK_S):
            # A broker that is away must not make us pile up without bound.
            if len(self.fed) - self.acknowledged > 20 * self._per_second:
                began, due = time.monotonic() - len(self.fed) / self._per_second, len(self.fed)
                self._producer.poll(0)
                continue
            due = round((time.monotonic() - began) * self._per_second)
            while len(self.fed) < due:
                event = next(self._events, None)
                if event is None:
                    return
                topic, key, value = event
                self._producer.produce(topic, key=key, value=value, on_delivery=self._delivered)
                self.fed.append(event)
            self._producer.poll(0)

    def end(self) -> None:
        """Stop; returns when the brokers have acknowledged all of it."""
        self._over.set()
        self.join()
        if left := self._producer.flush(FLUSH_S):
            self.failure = f"{left} events were not acknowledged within {FLUSH_S:.0f} s"

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failure = str(error)
