"""Bars in groups: how much compared with how much. Lengths are coarse on purpose, so that every run draws the same."""

from dataclasses import dataclass
from typing import Final

from onceward.textbook.pictures import Picture, svg
from onceward.textbook.pictures.grid import Grid, Tone

LONGEST: Final = 30  # blocks
LEFT: Final = 12  # columns for the labels
BLOCK: Final = 9  # SVG: width of a block
FULL: Final = 700


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    blocks: int
    words: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, slots=True)
class Group:
    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars(Picture):
    groups: tuple[Group, ...]

    def grid(self) -> Grid:
        grid = Grid()
        row = 0
        for group in self.groups:
            grid.put(row, 0, group.name)
            for index, bar in enumerate(group.bars, 1):
                grid.put(row + index, 2, bar.label, Tone.QUIET)
                grid.put(row + index, LEFT, "█" * bar.blocks, bar.tone)
                grid.put(row + index, LEFT + bar.blocks + 1, bar.words)
            row += len(group.bars) + 2
        return grid

    def svg(self) -> str:
        parts: list[str] = []
        y = 30
        for group in self.groups:
            parts.append(svg.text(20, y, group.name, anchor="start", bold=True))
            for bar in group.bars:
                y += 26
                width = bar.blocks * BLOCK
                parts.append(svg.text(36, y, bar.label, Tone.QUIET, anchor="start"))
                parts.append(svg.box(110, y - 13, width, 16, bar.tone, filled=True))
                parts.append(svg.text(122 + width, y, bar.words, anchor="start"))
            y += 40
        return svg.document(self.title, FULL, y - 14, parts)
