"""The timeline of a run, drawn as one SVG.

Places along the time axis are percentages of the picture's width, so a wider picture is a closer look: the zoom is
a matter of style alone, and works without a script.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from onceward.proof.chaos import report_lanes as lanes
from onceward.proof.chaos import report_words as words
from onceward.proof.chaos.record import Happening, Result

_WINDOWS_S: Final = (900, 240, 60)  # what a screen shows, closer and closer
_TICKS: Final = 8  # on one screen
_CROWDED: Final = 100  # marks of a lane, and in the whole run their heads run into each other
_AXIS: Final = 26  # heights in px
_TALL: Final = 44
_LOW: Final = 26
_SHAPES: Final = {
    "kill": '<path d="M0,-10V10"/><path class="head" d="M-3.5,-3.5L3.5,3.5M-3.5,3.5L3.5,-3.5"/>',
    "pause": '<path d="M-2,-6V6M2,-6V6"/>',
    "network": '<path d="M0,-5.5L5.5,0L0,5.5L-5.5,0Z"/>',
}
_HIT: Final = '<rect class="hit" x="-6" y="-11" width="12" height="22"/>'  # a thin mark is hard to point at
_MARKS: Final = "".join(f'<g id="mark-{mark}">{_HIT}{shape}</g>' for mark, shape in _SHAPES.items())
LEGEND: Final = {"kill": "killed", "pause": "paused, stopped or disturbed", "network": "network"}


@dataclass(frozen=True, slots=True)
class _Lane:
    name: str  # both are HTML of our own making
    note: str
    height: int
    drawn: Iterable[str]  # around the middle, y = 0
    style: str = ""


def timeline(result: Result) -> str:
    """Zoom, lane names, the picture, and what its marks mean."""
    length = lanes.length_s(result)
    levels = [length, *(float(window) for window in _WINDOWS_S if window * 1.5 < length)]
    shown = list(_lanes(result, length))
    names = "".join(
        f'<li style="height:{lane.height}px"><b>{lane.name}</b> <span>{lane.note}</span></li>' for lane in shown
    )
    closer = ";".join(f"--closer{place}:{length / window:.3f}" for place, window in enumerate(levels))
    return (
        f"{_zoom(levels)}"
        f'<div class="timeline" style="{closer}"><ul class="names" style="padding-top:{_AXIS}px">{names}</ul>'
        f'<div class="scroll" tabindex="0" role="group" aria-label="Timeline, scrolls sideways">'
        f"{_picture(shown, levels, length)}</div></div>{_legend()}"
    )


def _zoom(levels: Sequence[float]) -> str:
    """A button for each level; the style sheet makes the picture wider by the level's `--closer`."""
    if len(levels) == 1:
        return ""
    names = ["whole run", *(words.duration(window) for window in levels[1:])]
    buttons = "".join(
        f'<input type="radio" name="zoom" id="zoom{place}"{" checked" * (place == 0)}>'
        f'<label for="zoom{place}">{name}</label>'
        for place, name in enumerate(names)
    )
    return f'<span class="zoom-name">One screen shows</span> {buttons}'


def _picture(shown: Sequence[_Lane], levels: Sequence[float], length: float) -> str:
    height = _AXIS + sum(lane.height for lane in shown)
    body = []
    top = _AXIS
    for lane in shown:
        body.append(f'<line class="edge" x1="-16" x2="100%" y1="{top}" y2="{top}"/>')
        middle = top + lane.height // 2
        body.append(f'<g class="{lane.style}" transform="translate(0,{middle})">{"".join(lane.drawn)}</g>')
        top += lane.height
    axes = "".join(_axis(place, window, length, height) for place, window in enumerate(levels))
    return (
        f'<svg class="lanes" height="{height}" role="img" aria-label="What happened when; the list below says the same '
        f'in words"><defs>{_MARKS}</defs>{axes}{"".join(body)}</svg>'
    )


def _axis(place: int, window: float, length: float, height: int) -> str:
    step = max(1, lanes.step_s(window, _TICKS))
    drawn = []
    for number in range(int(length / step) + 1):
        at = _percent(number * step, length)
        last = ' class="last"' if number * step > 0.97 * length else ""
        drawn.append(f'<line x1="{at}" x2="{at}" y1="{_AXIS - 6}" y2="{height}"/>')
        drawn.append(f'<text{last} x="{at}" y="{_AXIS - 11}">{words.clock(number * step)}</text>')
    return f'<g class="axis z{place}">{"".join(drawn)}</g>'


def _lanes(result: Result, length: float) -> Iterator[_Lane]:
    happenings = lanes.ordered(result)
    lives = lanes.lives(happenings, length)
    yield _Lane("driver lives", f"{len(lives):,}", _LOW, _lives(lives, length))
    step, bins = lanes.bins(happenings, length)
    per = "" if step is None else f", per {step:g} s"
    yield _Lane("epochs", f"{result.epochs:,}{per}", _TALL, _epochs(bins, length))
    back = [happening for happening in happenings if happening.kind == "back"]
    yield _Lane("recoveries", f"{len(back):,}", _LOW, (_back(happening, length) for happening in back))
    faults = lanes.faults(happenings)
    for target in (*lanes.TARGETS, ""):
        struck = lanes.of_target(faults, target)
        if struck or target:
            # The rarer kinds last, on top of the kills.
            drawn = [_fault(fault, length) for fault in sorted(struck, key=lambda fault: fault.mark)]
            style = "crowded" if len(struck) > _CROWDED else ""
            yield _Lane(f'{target or "other"}<i class="wide-only"> faults</i>', f"{len(struck):,}", _LOW, drawn, style)


def _lives(lives: Sequence[lanes.Life], length: float) -> Iterator[str]:
    """In two rows: beside a paused driver runs its successor."""
    free_s = [0.0, 0.0]
    for place, life in enumerate(lives):
        below = int(free_s[0] > life.start.at_s)
        free_s[below] = life.end_s
        until = f"until {_told(life.end)}" if life.end else "to the end of the run"
        said = f"{_told(life.start)}; {until}, {words.duration(life.end_s - life.start.at_s)}"
        # Neighbours differ in shade: a gap between them would claim that no driver ran.
        yield _bar(life.start.at_s, life.end_s, length, 8, f"life life{place % 2}", said, middle=10 * below - 5)


def _epochs(bins: Sequence[lanes.Bin], length: float) -> Iterator[str]:
    most = max((inside.count for inside in bins), default=1)
    for inside in bins:
        if inside.begin_s == inside.end_s:
            at = _percent(inside.begin_s, length)
            yield f'<line class="epoch" x1="{at}" x2="{at}" y1="-12" y2="12">{_titled(_told(inside.last))}</line>'
            continue
        tall = max(1.5, (_TALL - 8) * inside.count / most)
        up_to = "" if inside.last.number is None else f", up to {inside.last.number:,}"
        span = f"{words.clock(inside.begin_s)} to {words.clock(inside.end_s)}"
        said = f"{span}: {words.counted(inside.count, 'epoch')} committed{up_to}"
        begin, wide = _percent(inside.begin_s, length), _percent(min(inside.end_s, length) - inside.begin_s, length)
        yield (
            f'<rect class="epochs" x="{begin}" width="{wide}" y="{_TALL / 2 - 2 - tall:.1f}" height="{tall:.1f}">'
            f"{_titled(said)}</rect>"
        )


def _back(happening: Happening, length: float) -> str:
    took = happening.seconds or 0.0
    said = _told(happening)
    if words.seconds(took) not in said:
        said += f", after {words.seconds(took)}"
    return _bar(max(0.0, happening.at_s - took), happening.at_s, length, 10, "back", said)


def _fault(struck: lanes.Fault, length: float) -> str:
    fault, heal = struck.fault, struck.heal
    said = _told(fault)
    span = ""
    if heal is not None:
        said += f"; {_told(heal)}, {words.seconds(heal.at_s - fault.at_s)} later"
        span = _bar(fault.at_s, heal.at_s, length, 6, f"span {struck.mark}", said)
    at = _percent(fault.at_s, length)
    return f'{span}<use class="mark {struck.mark}" href="#mark-{struck.mark}" x="{at}">{_titled(said)}</use>'


def _bar(begin: float, end: float, length: float, height: int, style: str, said: str, *, middle: int = 0) -> str:
    return (
        f'<rect class="{style}" x="{_percent(begin, length)}" width="{_percent(end - begin, length)}" '
        f'y="{middle - height // 2}" height="{height}">{_titled(said)}</rect>'
    )


def _legend() -> str:
    marks = "".join(
        f'<li><svg width="14" height="22" viewBox="-7 -11 14 22" aria-hidden="true"><use class="mark {mark}" '
        f'href="#mark-{mark}"/></svg>{says}</li>'
        for mark, says in LEGEND.items()
    )
    return f'<ul class="legend">{marks}<li><i class="swatch"></i>until it was healed</li></ul>'


def _told(happening: Happening) -> str:
    at_point = f" (at {happening.point})" if happening.point and happening.point not in happening.what else ""
    return f"{words.clock(happening.at_s)} {happening.what}{at_point}"


def _titled(said: str) -> str:
    return f"<title>{escape(words.printable(said, 300))}</title>"


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3f}".rstrip("0").rstrip(".") + "%"
