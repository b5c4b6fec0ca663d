"""Figures from samples: medians, their spread, ratios round by round. Pure."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Figure:
    """What several rounds agree on."""

    median: float
    low: float
    high: float
    rounds: int

    @classmethod
    def of(cls, values: Sequence[float]) -> "Figure":
        return cls(statistics.median(values), min(values), max(values), len(values))

    def text(self) -> str:
        """The median, and the spread where there is one."""
        if self.low == self.high:
            return shown(self.median)
        return f"{shown(self.median)} ({shown(self.low)} to {shown(self.high)})"


def ratio(mine: Sequence[float], base: Sequence[float]) -> Figure | None:
    """Round by round, since what disturbs a round disturbs both; None where there is nothing to divide by."""
    pairs = [(a, b) for a, b in zip(mine, base, strict=False) if b]
    return Figure.of([a / b for a, b in pairs]) if pairs else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so many percent do not exceed: a latency that somebody really had."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share / 100 * len(ordered)) - 1)]


def latencies_ms(pairs: Iterable[tuple[float, float]], *, after: float = -math.inf) -> list[float]:
    """From (intended send time, arrival), in seconds; of records that were due after the warm-up.

    From the intended time, not from the real one: a feeder that was held up would else hide the very delays that it
    suffered from.
    """
    return [(seen - due) * 1000 for due, seen in pairs if due >= after]


def longest_gap_ms(arrivals: Sequence[float], since: float) -> float:
    """The longest time since then in which nothing became visible."""
    moments = [since, *sorted(it for it in arrivals if it > since)]
    return max((b - a for a, b in pairwise(moments)), default=math.inf) * 1000


def shown(value: float) -> str:
    """As many digits as mean something."""
    if not math.isfinite(value):
        return "-"
    if abs(value) >= 100_000:
        return f"{round(value, -3):,.0f}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"
