"""What every part of the page needs to say something: safe text, money with its sign, round numbers along an axis."""

import math
from html import escape
from typing import Final

from onceward.proof.chaos.report_words import printable

OURS: Final = "Onceward"
SPARKS: Final = "Spark's own sinks"
SIDES: Final = {"ours": OURS, "sparks": SPARKS}  # by the name of their style
_ROUND: Final = (1, 2, 5, 10)


def text(said: str, most: int = 200) -> str:
    """Whatever it is, a browser shows it and obeys nothing in it."""
    return escape(printable(said, most))


def difference(cents: int) -> str:
    return f"{cents / 100:+,.2f}" if cents else "0.00"


def ticks(low: float, high: float, most: int) -> list[int]:
    """Round whole numbers, equally far from each other, that span from `low` to `high` in at most so many steps.

    The outermost ones lie on the ends or beyond them.
    """
    step = _step((high - low) / most)
    while math.ceil(high / step) - math.floor(low / step) > most:
        step = _step(step + 1)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [step * number for number in range(first, max(last, first + 1) + 1)]


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3f}".rstrip("0").rstrip(".") + "%"


def _step(least: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50, … that is not below."""
    if least <= 1:
        return 1
    power = int(10 ** math.floor(math.log10(least)))
    return next(power * factor for factor in _ROUND if power * factor >= least)
