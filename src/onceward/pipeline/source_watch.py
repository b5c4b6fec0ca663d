"""Whether the source's Kafka is there, while Spark waits for it: Spark itself says nothing for minutes.

A knock at the brokers' door, beside the epochs; nothing is decided by it.
"""

import threading
import time
from collections.abc import Collection
from typing import Final

from onceward.epoch.observing import Observer
from onceward.epoch.patience import Patience
from onceward.errors import BrokerUnreachable
from onceward.events import of_pipeline
from onceward.kafka.listening import silence

KNOCK_S: Final = 5.0
SUBJECT: Final = "the source's Kafka"


class SourceWatch(Observer):
    """Of one start. `patience` shows what it finds, and may have said already that this Kafka, as a sink's, is away."""

    def __init__(self, pipeline: str, bootstraps: Collection[str], patience: Patience) -> None:
        self._pipeline = pipeline
        self._bootstraps = bootstraps
        self._patience = patience
        self._own = Patience(float("inf"), clock=time.monotonic, sleep=time.sleep)  # says it, and waits for nothing
        self._over = threading.Event()

    def started(self) -> None:
        """From here on Spark reads."""
        if self._bootstraps:
            threading.Thread(target=self._work, name=f"onceward-source-{self._pipeline}", daemon=True).start()

    def ended(self, failure: BaseException | None) -> None:  # noqa: ARG002 - whatever ended it
        """Nobody reads any more."""
        self._over.set()
        self._patience.beside = None

    def _work(self) -> None:
        with of_pipeline(self._pipeline):
            while not self._over.wait(KNOCK_S):
                self._knock()

    def _knock(self) -> None:
        began, known = time.monotonic(), self._own.waiting
        said = next(filter(None, map(silence, self._bootstraps)), "")
        if not said:
            self._own.over()
        elif known is not None or self._patience.waiting is None:
            self._own.note(BrokerUnreachable(said), known.since if known is not None else began, SUBJECT)
        self._patience.beside = None if self._over.is_set() else self._own.waiting
