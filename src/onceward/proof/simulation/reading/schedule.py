"""A schedule of reading: who reads, from which logs, and what goes wrong at which request."""

from dataclasses import dataclass
from random import Random
from typing import Final, NamedTuple

# Answers without anything, throttled ones, slow ones; a batch cut off, given again, or left out; a leader that knows
# less, moves, or is none; requests and answers lost; error codes; the start of the log moves on; nothing for long.
FETCHING: Final = (
    "empty", "throttle", "slow", "cut", "again", "hole", "less", "move", "leaderless", "lose-request", "lose-answer",
    "error", "start", "silence",
)  # fmt: skip
SENDING: Final = ("slow", "lose-request", "lose-answer", "error", "move", "leaderless")
WHO: Final = ("ranges", "records", "headers", "copies")


class Trouble(NamedTuple):
    """What happens to the request of that number."""

    step: int
    kind: str
    argument: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """All there is to know about a run. The seed makes the logs and what is read of them."""

    seed: int
    who: str
    troubles: tuple[Trouble, ...] = ()


def scheduled(seed: int) -> Schedule:
    """The schedule of a seed."""
    dice = Random(f"reading {seed}")  # noqa: S311 - a seed replays a failure
    who = WHO[int(dice.random() * len(WHO))]
    troubles = list[Trouble]()
    step, kinds = 0, FETCHING if who != "copies" else (*FETCHING, *SENDING)
    for _ in range(int(dice.random() * 7)):
        # Half of them follow each other: one empty answer is harmless to many a bug.
        step = step + 1 if dice.random() < 0.5 else int(dice.random() * (12 if who != "copies" else 30))
        troubles.append(Trouble(step, kinds[int(dice.random() * len(kinds))], int(dice.random() * 64)))
    return Schedule(seed, who, tuple(sorted(troubles)))
