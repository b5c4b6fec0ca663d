"""What people do to a pipeline, and where it dies meanwhile: the steps of a sequence. Pure."""

from dataclasses import dataclass
from typing import Final, Literal

from onceward import crashpoints

Kind = Literal["run", "save", "restore", "fork", "reset", "delete"]
KINDS: Final[tuple[Kind, ...]] = ("run", "save", "restore", "fork", "reset", "delete")
How = Literal["earliest", "offsets", "group"]
OF_STARTS: Final = ("fenced", "resolving", "recovered", "replaying")
BEFORE_THE_LINEAGE: Final = ("restore-copied", "restore-rescaled", "restore-ready", "reset-ready")
BEGINS_IT: Final = ("restore-begun", "reset-begun")
OF_EPOCHS: Final = tuple(
    it
    for it in crashpoints.POINTS
    if it not in (*OF_STARTS, "task-writing")  # no Python worker writes here
)
DECIDED: Final = ("decided", "committed", "recorded")  # at these the epoch is out
POINTS: Final = (*OF_STARTS, *OF_EPOCHS, *crashpoints.OF_RESTORES, *crashpoints.OF_RESETS, *crashpoints.OF_SAVEPOINTS)


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL at a named point, the `nth` time that the process gets there; in epochs: which one of the run's."""

    point: str
    nth: int = 1
    epoch: int = 1

    def __str__(self) -> str:
        return f"{self.point}#{self.nth}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """One step. `pipeline`: for a fork, the new one's number. `feed`: ids by partition, before it."""

    kind: Kind
    pipeline: int
    sinks: tuple[str, ...] = ()
    feed: tuple[tuple[int, ...], ...] = ()
    savepoint: int | None = None
    partitions: int | None = None  # of the restored state
    knowingly: bool = False
    retain: bool = True  # the checkpoint, when it has ended
    how: How = "earliest"
    offsets: tuple[int, ...] = ()
    kill: Kill | None = None

    def __str__(self) -> str:
        words = [self.kind, f"p{self.pipeline}"]
        words += [f"savepoint {self.savepoint}"] if self.savepoint is not None else []
        words += (
            [f"to {self.how} {list(self.offsets) if self.offsets else ''}".rstrip()] if self.kind == "reset" else []
        )
        words += [f"with {', '.join(self.sinks)}"] if self.sinks else []
        words += [f"in {self.partitions} partitions"] if self.partitions is not None else []
        words += ["for the last time"] if not self.retain else []
        words += ["knowingly"] if self.knowingly else []
        words += [f"after {sum(map(len, self.feed))} more records"] if self.feed else []
        words += [f"killed at {self.kill}"] if self.kill is not None else []
        return " ".join(words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of it."""

    died: bool = False
    refused: str = ""  # the error's class; empty: it was done
    message: str = ""
    position: tuple[int, ...] | None = None  # of a savepoint
    epochs: int = 0  # that were committed, unless it died
