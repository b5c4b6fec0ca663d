"""How a story speaks: sentences, tables and pictures, in order. And what real things it may use.

A story's page is generated from what it said, so it must say the same in every run: no ports, no producer ids, no
times. Names that the servers need to be unique are made by `unique`, and told by their short form.
"""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onceward.textbook.pictures import Picture
from onceward.textbook.servers import Servers

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from onceward.servers.broker import DevBroker
    from onceward.servers.postgres import PostgresServer


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """Words in backquotes are names of things: files, calls, error codes."""

    text: str


@dataclass(frozen=True, slots=True)
class Point:
    """One of many small steps, which are counted."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Step = Heading | Sentence | Point | Table | Picture


def _nobody_listens(_step: Step) -> None:
    pass


@dataclass
class Stage:
    """`listener` hears each step when it happens; `steps` keeps them all."""

    servers: Servers
    listener: Callable[[Step], None] = _nobody_listens
    steps: list[Step] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self._add(Heading(text))

    def say(self, text: str) -> None:
        """One sentence or two about the step that has just happened."""
        self._add(Sentence(text))

    def count(self, number: int, text: str) -> None:
        """A step of a long row of small ones."""
        self._add(Point(number, text))

    def show(self, *columns: str, rows: list[tuple[object, ...]]) -> None:
        """A table; cells are shown by `str`."""
        self._add(Table(columns, tuple(tuple(str(cell) for cell in row) for row in rows)))

    def draw(self, picture: Picture) -> None:
        self._add(picture)

    def broker(self) -> "DevBroker":
        """A real Kafka. Others may use it too: take topics and ids from `unique`."""
        return self.servers.broker()

    def postgres(self) -> "PostgresServer":
        """A real PostgreSQL. Others may use it too: make a database of your own."""
        return self.servers.postgres()

    def spark(self) -> "SparkSession":
        return self.servers.spark()

    def folder(self) -> "Path":
        """A new empty folder, which goes with the story."""
        return self.servers.folder()

    def unique(self, name: str) -> str:
        """A name that no other run has used, for topics, groups, ids and databases."""
        return f"{name}_{uuid.uuid4().hex[:10]}"

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        self.listener(step)
