"""Looks into the tables, files and group offsets while the job runs: what became visible together, and when.

Each look reads the outputs first and what is decided after them: an epoch that was visible has to be decided by then.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psycopg

from onceward.epoch.home import Home
from onceward.epoch.inspection import epochs
from onceward.epoch.ledger import DECIDED, DONE
from onceward.errors import OncewardError
from onceward.proof.chaos import builtin
from onceward.proof.chaos.outputs import OUTPUTS
from onceward.proof.chaos.places import Places, ProofFailed, consumer, partitions
from onceward.proof.history import Place

EVERY_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Look:
    """What was new in each output, and what was decided right after that."""

    news: Mapping[str, list[int]]
    group: Mapping[Place, int] | None  # where the deciding group stands
    decided: int | None  # the last epoch that the ledger has decided, where it decides


class Poller(threading.Thread):
    """Reads the outputs again and again."""

    def __init__(self, places: Places) -> None:
        super().__init__(name="prove-poller", daemon=True)
        self.looks: list[Look] = []
        self._places = places
        self._outputs = {kind: OUTPUTS[kind](places) for kind in places.sinks if kind != "kafka"}
        self._over = threading.Event()
        self._failure: str | None = None

    def run(self) -> None:
        try:
            with consumer(self._places.bootstrap, "read_committed", builtin.NAME) as reader:
                while not self._over.wait(EVERY_S):
                    self._look(reader)
        except Exception as error:  # noqa: BLE001 - told by `end`: a judge that sees nothing must not say that all is well
            self._failure = repr(error)

    def end(self) -> None:
        self._over.set()
        if self.is_alive():
            self.join(60)

    def require_whole(self) -> None:
        """It looked to the end."""
        if self.is_alive() or self._failure is not None:
            raise ProofFailed(f"the looks into the outputs ended early: {self._failure or 'no answer for a minute'}")

    def _look(self, reader: Any) -> None:
        news: dict[str, list[int]] = {}
        for kind, output in self._outputs.items():
            try:
                news[kind] = output.news() or []
            except psycopg.OperationalError:
                continue  # PostgreSQL is down on purpose; what is there is seen next time
        if "kafka" not in self._places.sinks:
            self.looks.append(Look(news, None, _decided(self._places.folder / "home")))
            return
        # Brokers may be away. What is decided only grows, so a late answer is as good.
        while (group := _group(reader)) is None and not self._over.wait(EVERY_S):
            pass
        if group is not None:
            self.looks.append(Look(news, group, None))


def _group(reader: Any) -> dict[Place, int] | None:
    """The group's offsets; None if no broker answers just now."""
    from confluent_kafka import KafkaException

    try:
        found = reader.committed(partitions(reader, builtin.IN), timeout=5)
    except (KafkaException, KeyError):
        return None
    if any(it.error is not None for it in found):
        return None
    return {(it.topic, it.partition): it.offset for it in found if it.offset >= 0}


def _decided(home: Path) -> int | None:
    try:
        last = [entry.epoch for entry in epochs(Home.at(home), 3) if entry.phase in (DECIDED, DONE)]
    except OncewardError:
        return None
    return max(last, default=None)
