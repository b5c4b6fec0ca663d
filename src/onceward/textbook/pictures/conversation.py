"""Who said what to whom, from top to bottom: the lanes stand upright, and an arrow is a request or an answer."""

from dataclasses import dataclass
from typing import Final

from onceward.textbook.pictures import Picture, svg
from onceward.textbook.pictures.grid import WIDTH, Grid, Tone

GAP: Final = 40  # SVG: between two lines of the conversation
MARGIN: Final = 70
FULL: Final = 700


@dataclass(frozen=True, slots=True)
class Said:
    """An arrow from one lane to another. `lost`: it never arrived. `refused`: it arrived, and failed there."""

    source: str
    target: str
    words: str
    tone: Tone = Tone.PLAIN
    lost: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that one lane does by itself: killed, paused, reads 3 records."""

    lane: str
    words: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation(Picture):
    lanes: tuple[str, ...]
    moments: tuple[Said | Happened, ...]

    def grid(self) -> Grid:
        grid = Grid()
        places = self._columns()
        for lane, column in places.items():
            grid.put(0, max(0, min(column - len(lane) // 2, WIDTH - len(lane))), lane)
        row = 1
        for moment in self.moments:
            for offset in range(2):
                for column in places.values():
                    grid.put(row + offset, column, "│", Tone.QUIET)
            if isinstance(moment, Said):
                _arrow(grid, row, places[moment.source], places[moment.target], moment)
            else:
                _happened(grid, row, places[moment.lane], moment)
            row += 2
        return grid

    def _columns(self) -> dict[str, int]:
        """The outer lanes leave room for half of their names, the others divide what is between."""
        first, last = len(self.lanes[0]) // 2, WIDTH - 1 - (len(self.lanes[-1]) + 1) // 2
        step = (last - first) // max(1, len(self.lanes) - 1)
        return {lane: first + index * step for index, lane in enumerate(self.lanes)}

    def svg(self) -> str:
        step = (FULL - 2 * MARGIN) // max(1, len(self.lanes) - 1)
        places = {lane: MARGIN + index * step for index, lane in enumerate(self.lanes)}
        height = 70 + GAP * len(self.moments)
        parts = [svg.line(x, 42, x, height - 16, Tone.QUIET) for x in places.values()]
        parts += [svg.text(x, 30, lane, bold=True) for lane, x in places.items()]
        for index, moment in enumerate(self.moments):
            y = 78 + GAP * index
            if isinstance(moment, Said):
                parts += _svg_arrow(y, places[moment.source], places[moment.target], moment)
            else:
                parts += _svg_happened(y, places[moment.lane], moment)
        return svg.document(self.title, FULL, height, parts)


def _arrow(grid: Grid, row: int, source: int, target: int, said: Said) -> None:
    """The words above a line from lane to lane; a lost one ends half way."""
    left, right = sorted((source, target))
    room = right - left - 1
    if len(said.words) > room:
        raise ValueError(
            f"{said.words!r} has {len(said.words)} characters; between these lanes there is room for {room}"
        )
    grid.put(row, left + 1 + (room - len(said.words)) // 2, said.words, said.tone)
    if said.lost:
        room //= 2
    cross = "✗" if said.lost or said.refused else ""
    if source < target:
        grid.put(row + 1, left + 1, "─" * (room - 1) + (cross or "▶"), said.tone)
    else:
        grid.put(row + 1, right - room, (cross or "◀") + "─" * (room - 1), said.tone)


def _happened(grid: Grid, row: int, column: int, happened: Happened) -> None:
    """Beside the lane, on the side where there is room."""
    grid.put(row, column, "●", happened.tone)
    start = column + 2 if column + 2 + len(happened.words) <= WIDTH else column - 1 - len(happened.words)
    grid.put(row, start, happened.words, happened.tone)


def _svg_arrow(y: int, source: int, target: int, said: Said) -> list[str]:
    words = svg.text((source + target) // 2, y - 7, said.words, said.tone)
    edge = 3 if source < target else -3
    if not said.lost and not said.refused:
        return [svg.line(source + edge, y, target - edge, y, said.tone, head=True), words]
    end = (source + target) // 2 if said.lost else target - 3 * edge
    cross = [
        svg.line(end - 5, y - 5, end + 5, y + 5, Tone.BAD),
        svg.line(end - 5, y + 5, end + 5, y - 5, Tone.BAD),
    ]
    return [svg.line(source + edge, y, end, y, said.tone, dashed=said.lost), *cross, words]


def _svg_happened(y: int, x: int, happened: Happened) -> list[str]:
    right = x + 12 + 7 * len(happened.words) <= FULL
    at, anchor = (x + 12, "start") if right else (x - 12, "end")
    return [svg.dot(x, y - 4, happened.tone), svg.text(at, y, happened.words, happened.tone, anchor=anchor)]
