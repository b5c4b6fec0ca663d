"""By how much bills are off, as bars: a chart for each currency, and none for what is right.

Names are text, and places along the axis are percentages of the width.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onceward.apps.ads.world.judge import BillLine
from onceward.demo.page_bill import Row
from onceward.demo.page_text import SIDES, difference, percent, text, ticks

_AXIS: Final = 26  # heights in px
_BAR: Final = 12
_STEP: Final = 17  # from one bar to the next of the same campaign
_GAP: Final = 12  # between campaigns
_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class _Scale:
    at: list[int]  # round numbers of cents; the first and the last are the ends

    def place(self, cents: int) -> str:
        return percent(cents - self.at[0], self.length)

    @property
    def length(self) -> int:
        return self.at[-1] - self.at[0]


def charts(bill: Sequence[Row]) -> str:
    """Amounts of two currencies have no common length; what is right is told in words."""
    sides = [number for number in range(_count(bill)) if any(row.sides[number].off_cents for row in bill)]
    off = [row for row in bill if any(line.off_cents for line in row.sides)]
    drawn = [
        _chart(currency, [row for row in off if row.currency == currency], sides)
        for currency in sorted({row.currency for row in off})
    ]
    notes = (f'<p class="note">{text(said, 500)}</p>' for said in _right(bill, off, sides))
    return "".join([*notes, *drawn, _legend(sides) if drawn else ""])


def _right(bill: Sequence[Row], off: Sequence[Row], sides: Sequence[int]) -> Iterator[str]:
    names = list(SIDES.values())[: _count(bill)]
    exact = [name for number, name in enumerate(names) if number not in sides]
    if exact:
        yield f"{' and '.join(exact)}: every bill is right, to the cent. There is nothing to draw."
    if off and (right := [row.name for row in bill if row not in off]):
        which = names[sides[0]] if len(sides) == 1 else "both sides"
        yield f"Right on {which} too: {', '.join(right)}."


def _count(bill: Sequence[Row]) -> int:
    return max((len(row.sides) for row in bill), default=1)


def _chart(currency: str, bill: Sequence[Row], sides: Sequence[int]) -> str:
    off = [row.sides[number].off_cents for row in bill for number in sides]
    scale = _Scale(ticks(min(0, *off), max(0, *off), _TICKS))
    tall = len(sides) * _STEP + _GAP
    height = _AXIS + tall * len(bill)
    names = "".join(_name(row, tall) for row in bill)
    groups = "".join(_group(row, sides, scale, _AXIS + tall * number) for number, row in enumerate(bill))
    before, after = (max(map(len, map(difference, part)), default=0) for part in _by_sign(off))
    label = f"Differences to the truth in {currency}; the table above says the same"
    return (
        f'<h3 class="currency-name">{text(currency, 10)}</h3>'
        f'<div class="bars" style="--before:{before}ch;--after:{after}ch">'
        f'<ul class="names" style="padding-top:{_AXIS}px">{names}</ul><div class="plot">'
        f'<svg height="{height}" role="img" aria-label="{text(label)}">'
        f"{_axis(scale, height)}{groups}</svg></div></div>"
    )


def _by_sign(off: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those whose label is to the left of the bar, and those that have it on the right."""
    return [cents for cents in off if cents < 0], [cents for cents in off if cents >= 0]


def _name(row: Row, tall: int) -> str:
    name = text(row.name, 80)
    return f'<li style="height:{tall}px" title="{name}"><b>{name}</b></li>'


def _axis(scale: _Scale, height: int) -> str:
    drawn = []
    far = max(scale.at, key=abs)
    for cents in scale.at:
        at = scale.place(cents)
        style = "zero" if cents == 0 else "tick"
        crowded = "" if cents in {0, far} else ' class="wide-only"'
        drawn.append(f'<line class="{style}" x1="{at}" x2="{at}" y1="{_AXIS - 6}" y2="{height}"/>')
        drawn.append(f'<text{crowded} x="{at}" y="{_AXIS - 11}">{difference(cents)}</text>')
    return f'<g class="axis">{"".join(drawn)}</g>'


def _group(row: Row, sides: Sequence[int], scale: _Scale, top: int) -> str:
    # Longer than the picture, which cuts it off: so it reaches the names and the right end.
    edge = f'<line class="edge" x1="-400" x2="4000" y1="{top}" y2="{top}"/>'
    first = top + _GAP // 2 + (_STEP - _BAR) // 2
    bars = (
        "".join(_bar(list(SIDES)[side], row.sides[side], scale, first + number * _STEP))
        for number, side in enumerate(sides)
    )
    return edge + "".join(bars)


def _bar(style: str, line: BillLine, scale: _Scale, top: int) -> Iterator[str]:
    off = line.off_cents
    said = f"{line.campaign}, {SIDES[style]}: {difference(off)} {line.currency}"
    title = f"<title>{text(said)}</title>"
    zero, end = scale.place(0), scale.place(off)
    if off:
        wide = percent(abs(off), scale.length)
        begin = scale.place(min(0, off))
        yield f'<rect class="bar {style}" x="{begin}" width="{wide}" y="{top}" height="{_BAR}">{title}</rect>'
    else:
        yield f'<line class="bar {style} nothing" x1="{zero}" x2="{zero}" y1="{top}" y2="{top + _BAR}">{title}</line>'
    side, away = ("before", -7) if off < 0 else ("after", 7)
    yield f'<text class="value {side}" x="{end}" dx="{away}" y="{top + _BAR - 2}">{difference(off)}</text>'


def _legend(sides: Sequence[int]) -> str:
    places = ("upper bar: ", "lower bar: ") if len(sides) > 1 else ("",)
    styles = [list(SIDES)[number] for number in sides]
    items = "".join(
        f'<li><svg width="20" height="12" aria-hidden="true"><rect class="bar {style}" x="1" y="1" width="18" '
        f'height="10"/></svg>{place}{text(SIDES[style])}</li>'
        for place, style in zip(places, styles, strict=True)
    )
    return f'<ul class="legend">{items}</ul>'
