"""What a chaos run leaves: what happened and when, what was found, and how long it took to come back."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

# start: a driver process was started; fault: something was broken; heal: it was repaired again; back: an epoch was
# committed again after the loss of a driver (`seconds`: since then); epoch: epoch `number` was seen committed; end: a
# driver ended by itself.
Kind = Literal["start", "fault", "heal", "back", "epoch", "end"]
Target = Literal["driver", "worker", "executor", "broker", "postgres", "network", ""]


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that happened, so many seconds into the run."""

    at_s: float
    kind: Kind
    what: str  # for people
    target: Target = ""
    point: str = ""  # the named point at which a process died or slept
    number: int | None = None  # an epoch
    seconds: float | None = None
    kill: bool = False  # a fault by SIGKILL


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run of the prover, judged."""

    subject: str  # the job: `built-in`, or the user's file
    command: str  # does it again
    seed: int
    guarantee: str
    sinks: tuple[str, ...]
    brokers: int
    began: str  # ISO 8601, UTC
    seconds: float
    machine: str
    records_in: int
    records_out: Mapping[str, int]  # visible at the end, by sink
    epochs: int
    kills: int
    faults: Mapping[str, int]  # by name, e.g. "driver killed": 12
    points: Mapping[str, int]  # every named point: how often a process died or slept there
    recoveries_s: Sequence[float]  # a driver killed or paused -> the next committed epoch
    resolved: int  # epochs in doubt that a start found and resolved by itself
    watched: Mapping[str, int]  # what the watching consumers saw: committed, uncommitted, aborted
    checked: tuple[str, ...]  # the checkers that judged
    broken: Mapping[str, Sequence[str]]  # by checker, what it found
    happenings: tuple[Happening, ...] = field(default=())

    @property
    def exact(self) -> bool:
        return bool(self.checked) and not self.broken

    def recovery_s(self, percent: int) -> float | None:
        """The p50 or p95, by nearest rank."""
        if not self.recoveries_s:
            return None
        return sorted(self.recoveries_s)[math.ceil(len(self.recoveries_s) * percent / 100) - 1]

    def facts(self) -> dict[str, object]:
        """As JSON, with the verdict first."""
        p50, p95 = self.recovery_s(50), self.recovery_s(95)
        summary = {"exact": self.exact, "recovery_p50_s": p50, "recovery_p95_s": p95, "missed_points": self.missed}
        return {**summary, **asdict(self)}

    @property
    def missed(self) -> list[str]:
        return [point for point, times in self.points.items() if not times]
