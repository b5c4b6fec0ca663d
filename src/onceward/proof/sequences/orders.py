"""What the campaign tells a driver process, and what that answers: a line of JSON each."""

from typing import Literal

import msgspec


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A sink: its kind is its name. `place`: a topic, a table, or a folder."""

    kind: str
    place: str


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """One action on one pipeline."""

    kind: Literal["run", "save", "restore", "fork", "reset", "delete"]
    name: str
    home: str
    bootstrap: str
    dsn: str
    topic: str
    limit: int
    backend: Literal["rocksdb", "hashmap"]
    sinks: tuple[Target, ...] = ()
    savepoint: str = ""  # its directory
    partitions: int | None = None
    knowingly: bool = False
    retain: Literal["always", "never"] = "always"
    offsets: tuple[int, ...] = ()  # of a reset
    from_group: bool = False
    crash_at: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How it went. `refused`: the error's class; empty: it was done."""

    refused: str = ""
    message: str = ""
    position: tuple[int, ...] | None = None  # of the savepoint that was made
    epochs: int = 0  # that were committed
