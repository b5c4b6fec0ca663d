"""An operator and its inputs at several moments: what waits in each queue, where the barrier is, who is not read."""

from dataclasses import dataclass
from typing import Final

from onceward.textbook.pictures import Picture, svg
from onceward.textbook.pictures.grid import Grid, Tone

BARRIER: Final = "┃"  # as an item of a queue
NAMES: Final = 12  # columns for the inputs' names
QUEUE: Final = 29  # the column at which a queue ends and the operator begins
CELL: Final = 30  # SVG: a record
ROW: Final = 44  # SVG: from one input to the next
RIGHT: Final = 400  # SVG: where the queues end
FULL: Final = 760


@dataclass(frozen=True, slots=True)
class Input:
    """`queue`: the next to be read comes first. `blocked`: its barrier has arrived, and it waits for the others'."""

    name: str
    queue: tuple[str, ...]
    blocked: bool = False


@dataclass(frozen=True, slots=True)
class Moment:
    words: str
    inputs: tuple[Input, ...]
    state: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataflow(Picture):
    operator: str
    moments: tuple[Moment, ...]

    def grid(self) -> Grid:
        grid = Grid()
        row = 0
        for number, moment in enumerate(self.moments, 1):
            grid.put(row, 0, f"{number}. {moment.words}", moment.tone)
            self._moment(grid, row + 1, moment)
            row += 2 * len(moment.inputs) + 1
        return grid

    def _moment(self, grid: Grid, row: int, moment: Moment) -> None:
        edge, height = "─" * (len(self.operator) + 2), 2 * len(moment.inputs) - 1
        at = QUEUE + 4
        grid.put(row, at, f"┌{edge}┐", Tone.QUIET)
        for inner in range(1, height - 1):
            grid.put(row + inner, at, f"│{' ' * len(edge)}│", Tone.QUIET)
        grid.put(row + height - 1, at, f"└{edge}┘", Tone.QUIET)
        middle = row + height // 2
        grid.put(middle, at + 2, self.operator)
        grid.put(middle, at + len(edge) + 3, moment.state, moment.tone)
        for index, each in enumerate(moment.inputs):
            line = row + 2 * index
            grid.put(line, 3, each.name)
            _queue(grid, line, each)
            way = ("──┤", Tone.BAD) if each.blocked else ("──▶", Tone.QUIET)
            grid.put(line, QUEUE, *way)

    def svg(self) -> str:
        parts: list[str] = []
        y = 16
        for number, moment in enumerate(self.moments, 1):
            parts.append(svg.text(20, y + 14, f"{number}. {moment.words}", moment.tone, anchor="start", bold=True))
            parts += self._svg_moment(y + 26, moment)
            y += 26 + ROW * len(moment.inputs) + 22
        return svg.document(self.title, FULL, y, parts)

    def _svg_moment(self, y: int, moment: Moment) -> list[str]:
        height = ROW * len(moment.inputs)
        left = RIGHT + 50
        parts = [svg.box(left, y, 90, height - 8), svg.text(left + 45, y + height // 2, self.operator, bold=True)]
        parts.append(svg.text(left + 104, y + height // 2, moment.state, moment.tone, anchor="start"))
        for index, each in enumerate(moment.inputs):
            middle = y + ROW * index + (ROW - 8) // 2
            parts.append(svg.text(36, middle + 5, each.name, anchor="start"))
            end = left - 3 if not each.blocked else left - 22
            tone = Tone.BAD if each.blocked else Tone.QUIET
            parts.append(svg.line(150, middle, end, middle, tone, head=not each.blocked))
            if each.blocked:
                parts.append(svg.line(end, middle - 10, end, middle + 10, tone))
            parts += _svg_queue(middle, each)
        return parts


def _items(each: Input) -> tuple[str, ...]:
    """A barrier that has arrived stays in the picture until the input is read again."""
    return (BARRIER, *each.queue) if each.blocked else each.queue


def _queue(grid: Grid, row: int, each: Input) -> None:
    column = QUEUE - 1
    for item in _items(each):
        column -= len(item)
        grid.put(row, column, item, Tone.MARK if item == BARRIER else Tone.PLAIN)
        column -= 1
    if column < NAMES:
        raise ValueError(f"{len(each.queue)} records of {each.name} do not fit into the picture")


def _svg_queue(middle: int, each: Input) -> list[str]:
    parts: list[str] = []
    x = RIGHT
    for item in _items(each):
        if item == BARRIER:
            parts.append(svg.box(x + CELL - 8, middle - 15, 6, 30, Tone.MARK, filled=True))
            x -= 14
        else:
            parts += [svg.box(x, middle - 12, CELL - 2, 24), svg.text(x + CELL // 2 - 1, middle + 5, item)]
            x -= CELL + 4
    return parts
