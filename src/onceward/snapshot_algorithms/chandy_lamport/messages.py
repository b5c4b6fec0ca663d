"""What travels, and where."""

from typing import Generic, NamedTuple, TypeVar

Body = TypeVar("Body")


class Channel(NamedTuple):
    """From one process to another. First in, first out; nothing is lost."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


class Message(NamedTuple, Generic[Body]):
    """What applications send. The number is for the checker: no process looks at it."""

    number: int
    body: Body


class Marker(NamedTuple):
    """Says on a channel: what was sent before me belongs to this snapshot. It is no part of the snapshot itself."""

    snapshot: str
