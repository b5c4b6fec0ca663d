"""What is asked of a run, and what it notes down on the way."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from onceward.proof.chaos.books import Books, homes_of
from onceward.proof.chaos.record import Happening, Kind, Target
from onceward.proof.history import Ended

TRIES: Final = 3  # of a point that no driver has come to yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is asked for."""

    seed: int
    kills: int
    minutes: float | None
    sinks: tuple[str, ...]
    guarantee: str = "exactly-once"
    brokers: int = 1
    per_second: int = 400


@dataclass(slots=True)
class Seen:
    """Notes for the judge and for the report. `died_at`: since when there is no driver at work."""

    folder: Path  # of the job
    happenings: list[Happening] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    points: dict[str, int] = field(default_factory=dict)
    unreached: Counter[str] = field(default_factory=Counter)  # tries in which a driver had time, and did not come there
    recoveries_s: list[float] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    books: dict[Path, Books] = field(default_factory=dict)
    epochs: int = -1  # finished ones, over all pipelines
    died_at: float | None = None
    _began: float = field(default_factory=time.monotonic)

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return round(time.monotonic() - self._began, 3)

    @property
    def kills(self) -> int:
        return sum(it.kill for it in self.happenings)

    def note(
        self,
        kind: Kind,
        what: str,
        target: Target = "",
        *,
        point: str = "",
        number: int | None = None,
        seconds: float | None = None,
        kill: bool = False,
    ) -> None:
        self.happenings.append(Happening(self.now, kind, what, target, point, number, seconds, kill))

    def reached(self, point: str) -> None:
        """A process died or fell asleep at a named point."""
        self.points[point] = self.points.get(point, 0) + 1

    def worth_trying(self, point: str) -> bool:
        """Not every job comes to every point; but one try may also fail by something else that broke meanwhile."""
        return point in self.points or self.unreached[point] < TRIES

    def look(self) -> bool:
        """Look for finished epochs; True if there are new ones. The first after a death ends a recovery."""
        for home in homes_of(self.folder):
            self.books.setdefault(home, Books(home))
        last = sum(books.last_commit() for books in self.books.values())
        if not self.books or last <= self.epochs:
            return False
        for books in self.books.values():
            books.look()
        self.epochs = last
        if self.died_at is not None:
            took = round(self.now - self.died_at, 2)
            self.recoveries_s.append(took)
            self.note("back", f"an epoch is committed {took:.1f} s later", "driver", seconds=took)
            self.died_at = None
        self.note("epoch", f"epoch {last}", number=last)
        return True

    def read_closely(self) -> None:
        """While no driver is at work: everything it has written down."""
        for books in self.books.values():
            books.read_closely()

    @property
    def finished(self) -> bool:
        """Every pipeline has finished all it has planned."""
        for books in self.books.values():
            books.look()
        return bool(self.books) and all(
            books.planned and books.last_commit() >= max(books.planned) for books in self.books.values()
        )
