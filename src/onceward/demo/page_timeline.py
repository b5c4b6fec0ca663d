"""Records fed and records visible over time, with the kills: each line is thinned out, none is smoothed.

The lines are stretched to the page's width; texts and marks stand at percentages of it, so that they keep their size.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from onceward.apps.ads import words
from onceward.demo.page_text import OURS, SPARKS, percent, text, ticks
from onceward.demo.trial import HEARTBEATS, Findings, Kill, Moment

POINTS: Final = 400  # of a line: more than the pixels between them
_HEAD: Final = 44  # heights in px
_PLOT: Final = 300
_FOOT: Final = 26
_UNITS: Final = 1_000  # of the stretched picture, both ways
_SECONDS_TICKS: Final = 8
_RECORDS_TICKS: Final = 6
_ROWS: Final = {"application": 12, "broker": 30}  # where the head of a mark is, from the top
_MARKS: Final = (
    '<defs><path id="mark-application" d="M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5"/>'
    '<path id="mark-broker" d="M0,-6L6,0L0,6L-6,0Z"/></defs>'
)
_KILLED: Final = {"application": "application killed", "broker": "Kafka broker killed"}


@dataclass(frozen=True, slots=True)
class _Line:
    style: str
    name: str
    count: Callable[[Moment], int]


def chart(found: Findings) -> str:
    if not found.moments:
        return '<p class="note">Nobody looked while it ran.</p>'
    lines = list(_lines(found))
    return (
        f'<p class="axis-name">records</p><div class="timeline">{_picture(found, lines)}</div>'
        f'<p class="axis-name middle">seconds since the start</p>{_legend(found, lines)}{_in_words(found.kills)}'
    )


def thinned(moments: Sequence[Moment]) -> list[Moment]:
    """At most POINTS of them, evenly, with the first and the last."""
    if len(moments) <= POINTS:
        return list(moments)
    return [moments[round(number * (len(moments) - 1) / (POINTS - 1))] for number in range(POINTS)]


def wanted(found: Findings) -> int:
    """How many records are visible in the topics of a side if it is exact."""
    return HEARTBEATS + sum(it.expected for it in found.ours.findings if it.output in words.MADE)


def _lines(found: Findings) -> Iterator[_Line]:
    yield _Line("fed", "fed to both" if found.sparks is not None else "fed", lambda it: it.fed)
    if found.sparks is not None:  # without a contrast its counts mean nothing
        yield _Line("sparks", f"visible, {SPARKS}", lambda it: it.sparks)
    yield _Line("ours", f"visible, {OURS}", lambda it: it.ours)


def _picture(found: Findings, lines: Sequence[_Line]) -> str:
    moments = thinned(found.moments)
    counts = [line.count(it) for line in lines for it in moments]
    records = ticks(0, max(wanted(found), *counts), _RECORDS_TICKS)
    length = max(1.0, moments[-1].at_s, *(kill.at_s for kill in found.kills))
    goal = _HEAD + _PLOT * (1 - wanted(found) / records[-1])
    drawn = [
        _MARKS,
        *_grid(length, records),
        f'<line class="goal" x1="0" x2="100%" y1="{goal:.1f}" y2="{goal:.1f}"/>',
        *(_kill(number, kill, length) for number, kill in enumerate(found.kills, start=1)),
        f'<svg y="{_HEAD}" width="100%" height="{_PLOT}" viewBox="0 0 {_UNITS} {_UNITS}" preserveAspectRatio="none">',
        *(_curve(line, moments, length, records[-1]) for line in lines),
        "</svg>",
    ]
    height = _HEAD + _PLOT + _FOOT
    said = "Records fed and visible over time; the kills are listed below"
    return f'<svg height="{height}" role="img" aria-label="{said}">{"".join(drawn)}</svg>'


def _grid(length: float, records: Sequence[int]) -> Iterator[str]:
    bottom = _HEAD + _PLOT
    for count in records:
        y = bottom - _PLOT * count / records[-1]
        yield f'<line class="edge" x1="0" x2="100%" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text class="before" x="-8" y="{y + 4:.1f}">{count:,}</text>'
    for second in ticks(0, length, _SECONDS_TICKS):
        if second <= length:
            at = percent(second, length)
            yield f'<line class="edge" x1="{at}" x2="{at}" y1="{bottom}" y2="{bottom + 5}"/>'
            yield f'<text x="{at}" y="{bottom + 19}">{second:,}</text>'


def _curve(line: _Line, moments: Sequence[Moment], length: float, most: int) -> str:
    points = " ".join(f"{_UNITS * it.at_s / length:.1f},{_UNITS * (1 - line.count(it) / most):.1f}" for it in moments)
    return f'<polyline class="line {line.style}" points="{points}"/>'


def _kill(number: int, kill: Kill, length: float) -> str:
    mark = _mark(kill)
    at = percent(kill.at_s, length)
    row = _ROWS[mark]
    title = f"<title>{text(f'kill {number}, {kill.at_s:.1f} s: {kill.what}')}</title>"
    return (
        f'<g class="kill {mark}">{title}<line x1="{at}" x2="{at}" y1="{row + 6}" y2="{_HEAD + _PLOT}"/>'
        f'<use href="#mark-{mark}" x="{at}" y="{row}"/></g>'
    )


def _mark(kill: Kill) -> str:
    return kill.what if kill.what in _ROWS else "application"


def _legend(found: Findings, lines: Sequence[_Line]) -> str:
    samples = [(f'<line class="line {line.style}" x1="0" x2="26" y1="8" y2="8"/>', line.name) for line in lines]
    samples.append(
        ('<line class="goal" x1="0" x2="26" y1="8" y2="8"/>', f"must be visible in the end: {wanted(found):,}")
    )
    shown = {_mark(kill) for kill in found.kills}
    samples += [
        (f'<g class="kill {mark}"><use href="#mark-{mark}" x="13" y="8"/></g>', _KILLED[mark])
        for mark in _ROWS
        if mark in shown
    ]
    items = "".join(
        f'<li><svg width="26" height="16" aria-hidden="true">{sample}</svg>{text(name)}</li>'
        for sample, name in samples
    )
    return f'<ul class="legend">{items}</ul>'


def _in_words(kills: Sequence[Kill]) -> str:
    if not kills:
        return '<p class="note">Nothing was killed.</p>'
    listed = "".join(f"<li>{text(f'{kill.at_s:.1f} s: {kill.what}')}</li>" for kill in kills)
    return f"<details><summary>The kills in words</summary><ol>{listed}</ol></details>"
