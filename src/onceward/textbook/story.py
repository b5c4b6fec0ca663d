"""What a story is: a question, how it is told, and the state it ends in, which its test asserts."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from onceward.textbook.stage import Stage


class Need(StrEnum):
    """A real server that the story uses. It is started for the story, and stopped after it."""

    KAFKA = "Kafka"
    POSTGRES = "PostgreSQL"
    SPARK = "Spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """`last`: what the story came to, as plain values. `lives_in`: paths from the top of the repository."""

    last: object
    takeaways: tuple[str, ...]
    lives_in: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    name: str  # as the command takes it
    title: str
    question: str  # one sentence, with a question mark
    tell: Callable[[Stage], Ending]
    needs: tuple[Need, ...] = ()
