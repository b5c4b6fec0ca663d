"""The happenings of a run, sorted into what a timeline draws: lives, faults with their ends, bins of epochs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from onceward.proof.chaos.record import Happening, Result, Target

Mark = Literal["kill", "pause", "network"]
TARGETS: Final[tuple[Target, ...]] = ("driver", "worker", "executor", "broker", "postgres", "network")
_REPLACED: Final = ("driver", "worker", "executor")  # nobody heals these after a kill: others take their place
_TICKS: Final = 400  # more epochs than that, and a tick each would be a blur
_BINS: Final = 1_200
_STEPS_S: Final = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    3,
    5,
    10,
    15,
    20,
    30,
    60,
    120,
    300,
    600,
    900,
    1_800,
    3_600,
    7_200,
    14_400,
    43_200,
)


@dataclass(frozen=True, slots=True)
class Life:
    """A driver, from its start to what ended it."""

    start: Happening
    end_s: float
    end: Happening | None


@dataclass(frozen=True, slots=True)
class Fault:
    fault: Happening
    heal: Happening | None = None

    @property
    def mark(self) -> Mark:
        if self.fault.kill:
            return "kill"
        return "network" if self.fault.target == "network" else "pause"


@dataclass(frozen=True, slots=True)
class Bin:
    """Epochs that were seen committed in a stretch of time, up to those of its last look."""

    begin_s: float
    end_s: float
    count: int
    last: Happening


def ordered(result: Result) -> list[Happening]:
    return sorted(result.happenings, key=lambda happening: happening.at_s)


def length_s(result: Result) -> float:
    """Until the last thing happened, never zero: judging takes time too, but nothing happens in it."""
    return max(1.0, max((happening.at_s for happening in result.happenings), default=result.seconds))


def step_s(length: float, most: int) -> float:
    """A round step that divides the length into at most so many parts."""
    return next((step for step in _STEPS_S if length / step <= most), length / most)


def lives(happenings: Iterable[Happening], length: float) -> list[Life]:
    """By their starts. A paused driver lives on beside its successor, if the texts say which one is meant."""
    found: list[Life] = []
    going: dict[str, Happening] = {}
    for happening in happenings:
        which = _which(happening)
        if happening.kind == "start":
            if which in going:
                found.append(Life(going.pop(which), happening.at_s, happening))
            going[which] = happening
        elif _ends_a_life(happening) and going:
            start = going.pop(which) if which in going else going.popitem()[1]
            found.append(Life(start, happening.at_s, happening))
    found += [Life(start, length, None) for start in going.values()]
    return sorted(found, key=lambda life: life.start.at_s)


def faults(happenings: Iterable[Happening]) -> list[Fault]:
    """Every fault, and what healed it: a heal belongs to the newest open fault of the same thing."""
    found: list[Fault] = []
    opened: dict[tuple[str, str], list[int]] = {}
    for happening in happenings:
        thing = (happening.target, _which(happening))
        if happening.kind == "fault":
            if not (happening.kill and happening.target in _REPLACED):
                opened.setdefault(thing, []).append(len(found))
            found.append(Fault(happening))
        elif happening.kind == "heal" and opened.get(thing):
            place = opened[thing].pop()
            found[place] = Fault(found[place].fault, happening)
    return found


def bins(happenings: Iterable[Happening], length: float) -> tuple[float | None, list[Bin]]:
    """The looks that saw new epochs one by one, or so many seconds to a bin."""
    looks = [happening for happening in happenings if happening.kind == "epoch"]
    news = [1, *(_news(before, after) for before, after in pairwise(looks))][: len(looks)]
    if len(looks) <= _TICKS:
        return None, [Bin(look.at_s, look.at_s, count, look) for look, count in zip(looks, news, strict=True)]
    step = step_s(length, _BINS)
    found: dict[int, Bin] = {}
    for look, count in zip(looks, news, strict=True):
        place = int(look.at_s / step)
        before = found[place].count if place in found else 0
        found[place] = Bin(place * step, (place + 1) * step, before + count, look)
    return step, list(found.values())


def of_target(found: Sequence[Fault], target: str) -> list[Fault]:
    return [fault for fault in found if fault.fault.target == target]


def _ends_a_life(happening: Happening) -> bool:
    if happening.kind == "fault":
        return happening.kill and happening.target == "driver"
    return happening.kind == "end"


def _which(happening: Happening) -> str:
    """Of drivers and brokers there are several; the text begins with whom it is about: `broker 2 is back`."""
    named = re.match(rf"{happening.target} (\d+)\b", happening.what) if happening.target else None
    return named[1] if named else ""


def _news(before: Happening, after: Happening) -> int:
    """Between two looks several epochs may have been committed."""
    if before.number is None or after.number is None:
        return 1
    return max(1, after.number - before.number)
