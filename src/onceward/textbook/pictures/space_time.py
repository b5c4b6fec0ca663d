"""A space-time diagram: each process is a line, time goes to the right, a message is a slanting arrow."""

from dataclasses import dataclass
from typing import Final

from onceward.textbook.pictures import Picture, svg
from onceward.textbook.pictures.grid import WIDTH, Grid, Tone

BETWEEN: Final = 4  # rows from one lane to the next
ACROSS: Final = 44  # SVG: from one step to the next
DOWN: Final = 110  # SVG: from one lane to the next
LEFT: Final = 60  # SVG: room for the names, at least
TOP: Final = 50


@dataclass(frozen=True, slots=True)
class Event:
    """One sign on a lane at a step."""

    lane: str
    step: int
    sign: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Arrow:
    """From a lane at a step to another lane at a later one."""

    source: str
    sent: int
    target: str
    received: int
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class SpaceTime(Picture):
    """Steps count from 1. `cut`: for each lane the step behind which the snapshot ends."""

    lanes: tuple[str, ...]
    events: tuple[Event, ...]
    arrows: tuple[Arrow, ...] = ()
    cut: tuple[tuple[str, int], ...] = ()

    @property
    def steps(self) -> int:
        return max([it.step for it in self.events] + [it.received for it in self.arrows])

    def grid(self) -> Grid:
        grid = Grid()
        left = max(len("step"), *map(len, self.lanes)) + 1
        apart = (WIDTH - left) // self.steps
        rows = {lane: 1 + index * BETWEEN for index, lane in enumerate(self.lanes)}
        grid.put(0, 0, "step", Tone.QUIET)
        for step in range(1, self.steps + 1):
            grid.put(0, left + step * apart - len(str(step)), str(step), Tone.QUIET)
        for lane, row in rows.items():
            grid.put(row, 0, lane)
            grid.put(row, left, "─" * (apart * self.steps), Tone.QUIET)
        for arrow in sorted(self.arrows, key=lambda it: it.tone is not Tone.MARK):  # messages above markers
            ends = (left + it * apart - 1 for it in (arrow.sent, arrow.received))
            _slant(grid, rows[arrow.source], rows[arrow.target], *ends, tone=arrow.tone)
        for event in self.events:
            grid.put(rows[event.lane], left + event.step * apart - 1, event.sign, event.tone)
        return grid

    def svg(self) -> str:
        rows = {lane: TOP + 20 + index * DOWN for index, lane in enumerate(self.lanes)}
        width, height = self._left + ACROSS * (self.steps + 1), TOP + 20 + DOWN * (len(self.lanes) - 1) + 50
        parts = [svg.text(self._x(step), 24, str(step), Tone.QUIET) for step in range(1, self.steps + 1)]
        parts += [svg.line(self._left, y, width - 20, y, Tone.QUIET) for y in rows.values()]
        parts += [svg.text(self._left - 12, y + 5, lane, anchor="end", bold=True) for lane, y in rows.items()]
        parts += self._svg_cut(rows)
        for arrow in self.arrows:
            marker = arrow.tone is Tone.MARK
            ends = self._x(arrow.sent), rows[arrow.source], self._x(arrow.received), rows[arrow.target]
            parts.append(svg.line(*ends, arrow.tone, head=True, dashed=marker))
        for event in self.events:
            x, y = self._x(event.step), rows[event.lane]
            parts += [svg.dot(x, y, event.tone), svg.text(x, y - 11, event.sign, event.tone, bold=True)]
        return svg.document(self.title, width, height, parts)

    @property
    def _left(self) -> int:
        return max(LEFT, 24 + 8 * max(map(len, self.lanes)))

    def _x(self, step: int) -> int:
        return self._left + ACROSS * step - ACROSS // 2

    def _svg_cut(self, rows: dict[str, int]) -> list[str]:
        """One line through every lane, just behind the last thing that belongs to the snapshot."""
        points = [(self._x(step) + 10, rows[lane]) for lane, step in self.cut]
        if not points:
            return []
        (x1, _), (x2, _) = points[0], points[-1]
        way = [(x1, TOP - 10), *points, (x2, rows[self.cut[-1][0]] + 30)]
        return [svg.band(way, Tone.GOOD), svg.text(x2, way[-1][1] + 14, "the cut", Tone.GOOD)]


def _slant(grid: Grid, top: int, bottom: int, start: int, end: int, *, tone: Tone) -> None:
    """Dots from one lane to another, never on a lane; an arrow's head where it arrives."""
    down = 1 if bottom > top else -1
    sign = "∙" if tone is Tone.MARK else ("╲" if down > 0 else "╱")
    height = abs(bottom - top)
    for row in range(1, height):
        column = start + round((end - start) * row / height)
        if row % BETWEEN:
            grid.put(top + row * down, column, sign, tone)
