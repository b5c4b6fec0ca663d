"""A picture in characters: each cell has a character and a tone, which a terminal shows as a colour."""

from collections.abc import Iterator
from enum import StrEnum
from itertools import groupby
from typing import Final

WIDTH: Final = 78  # of 80: terminals like a margin


class Tone(StrEnum):
    PLAIN = "plain"
    QUIET = "quiet"  # the frame around what matters
    GOOD = "good"
    BAD = "bad"
    MARK = "mark"  # markers and barriers: what belongs to the snapshot and not to the application


class Grid:
    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], tuple[str, Tone]] = {}

    def put(self, row: int, column: int, text: str, tone: Tone = Tone.PLAIN) -> None:
        """Text that would not fit is an error: a picture that is cut off tells something else."""
        if column < 0 or column + len(text) > WIDTH:
            raise ValueError(f"{text!r} at column {column} does not fit into {WIDTH} columns")
        for offset, character in enumerate(text):
            self._cells[row, column + offset] = character, tone

    def at(self, row: int, column: int) -> str:
        return self._cells.get((row, column), (" ", Tone.PLAIN))[0]

    def lines(self) -> list[list[tuple[str, Tone]]]:
        """Each line as pieces of one tone."""
        rows = 1 + max((row for row, _ in self._cells), default=-1)
        return [
            [("".join(text for text, _ in piece), tone) for tone, piece in self._pieces(row)] for row in range(rows)
        ]

    def __str__(self) -> str:
        return "\n".join("".join(text for text, _ in line).rstrip() for line in self.lines())

    def _pieces(self, row: int) -> Iterator[tuple[Tone, list[tuple[str, Tone]]]]:
        width = 1 + max((column for at, column in self._cells if at == row), default=-1)
        cells = [self._cells.get((row, column), (" ", Tone.PLAIN)) for column in range(width)]
        for tone, piece in groupby(cells, key=lambda cell: cell[1]):
            yield tone, list(piece)
