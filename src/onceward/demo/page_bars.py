"""By how much each bill is off, as bars: names are text, and places along the axis are percentages of the width."""

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
        return max(1, self.at[-1] - self.at[0])  # where nothing is off, there is only a zero


def chart(bill: Sequence[Row]) -> str:
    off = [line.off_cents for row in bill for line in row.sides]
    scale = _Scale(ticks(min(0, *off), max(0, *off), _TICKS) if any(off) else [0])
    sides = max((len(row.sides) for row in bill), default=1)
    tall = sides * _STEP + _GAP
    height = _AXIS + tall * len(bill)
    names = "".join(_name(row, tall) for row in bill)
    groups = "".join(_group(row, scale, _AXIS + tall * number) for number, row in enumerate(bill))
    before, after = (max(map(len, map(difference, part)), default=0) for part in _by_sign(off))
    return (
        f'<div class="bars" style="--before:{before}ch;--after:{after}ch">'
        f'<ul class="names" style="padding-top:{_AXIS}px">{names}</ul><div class="plot">'
        f'<svg height="{height}" role="img" aria-label="Differences to the truth; the table above says the same">'
        f"{_axis(scale, height)}{groups}</svg></div></div>{_legend(sides)}"
    )


def _by_sign(off: Sequence[int]) -> tuple[list[int], list[int]]:
    """Those whose label is to the left of the bar, and those that have it on the right."""
    return [cents for cents in off if cents < 0], [cents for cents in off if cents >= 0]


def _name(row: Row, tall: int) -> str:
    name = text(row.name, 80)
    return f'<li style="height:{tall}px" title="{name}"><b>{name}</b> <span>{text(row.currency, 10)}</span></li>'


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


def _group(row: Row, scale: _Scale, top: int) -> str:
    # Longer than the picture, which cuts it off: so it reaches the names and the right end.
    edge = f'<line class="edge" x1="-400" x2="4000" y1="{top}" y2="{top}"/>'
    first = top + _GAP // 2 + (_STEP - _BAR) // 2
    bars = (
        "".join(_bar(style, line, scale, first + number * _STEP))
        for number, (style, line) in enumerate(zip(SIDES, row.sides, strict=False))
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


def _legend(sides: int) -> str:
    places = ("upper bar: ", "lower bar: ") if sides > 1 else ("",)
    items = "".join(
        f'<li><svg width="20" height="12" aria-hidden="true"><rect class="bar {style}" x="1" y="1" width="18" '
        f'height="10"/></svg>{place}{text(SIDES[style])}</li>'
        for place, style in zip(places, SIDES, strict=False)
    )
    return f'<ul class="legend">{items}</ul>'
