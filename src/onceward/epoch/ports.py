"""What the epoch's life needs of the world around it: small doors, so that the simulation runs the same code.

`pipeline/` has Spark, threads and clocks behind them, `proof/simulation/` a seeded world.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from onceward.epoch.checkpoint import Positions
from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import Outcome
from onceward.epoch.term import Holder, Term


class Batch(Protocol):
    """One micro-batch, as the engine hands it over."""

    def prepare(self, epoch: int, positions: Positions) -> None:
        """Before the first try: what every try must see alike, such as a lookup."""

    def rows(self, context: EpochContext) -> AbstractContextManager[Mapping[str, Any]]:
        """Each sink's rows, by its name, for one try; what they take is released afterwards."""

    def count(self, rows: Any) -> Outcome:
        """Run one sink's rows into number and digest, where the sink does not count itself."""

    def rows_read(self) -> int | None:
        """How many rows the engine has read from the sources for this epoch, over all tries; None: it does not tell."""

    def late_rows(self) -> int:
        """How many rows the engine has dropped behind the watermark in this epoch, where none may be; else 0."""


class Pending(Protocol):
    """Work that goes on beside the epoch."""

    def result(self) -> None:
        """Wait for its end; what it raised is raised here."""


class Background(Protocol):
    """Does one piece of work after the other, beside the epoch."""

    def submit(self, work: Callable[[], None]) -> Pending:
        """Begin with it, or queue it."""

    def close(self) -> None:
        """Wait for all of it."""


class Stop(Protocol):
    """Whether somebody asked the pipeline to stop."""

    def is_set(self) -> bool:
        """Asked to."""

    def wait(self, timeout: float) -> object:
        """Sleep, but no longer than until then."""


class Lease(Protocol):
    """A term's counter, kept moving."""

    def release(self) -> None:
        """Let go at once, so that the next start need not wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The process that a start runs in."""

    clock: Callable[[], float]
    sleep: Callable[[float], object]
    now: Callable[[], str]  # the time of day, for people
    fresh: Callable[[], str]  # a name that nobody else has
    holder: Callable[[str, int], Holder]  # of a pipeline's home, in a term
    is_gone: Callable[[Holder], bool]  # provably
    keep: Callable[[Term], Lease]
