"""A story in the terminal, step by step as it happens."""

import time
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Columns
from rich.text import Text

from onceward.terminal import plain
from onceward.textbook.pictures import Picture
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.stage import Heading, Point, Sentence, Step, Table
from onceward.textbook.story import Ending, Story

WIDTH: Final = 80
CHARACTERS_A_SECOND: Final = 25  # how fast --slow takes people to read
STYLES: Final = {Tone.PLAIN: "", Tone.QUIET: "dim", Tone.GOOD: "green", Tone.BAD: "bold red", Tone.MARK: "bold cyan"}


class Terminal:
    """`slow`: after each step, as long as it takes to read it. Nowhere else does a story wait for time to pass."""

    def __init__(self, console: Console, *, slow: bool = False) -> None:
        self._console, self._slow = console, slow

    def open(self, story: Story) -> None:
        self._print(Text(story.title, "bold"))
        self._print(Text(story.question, "italic"))

    def step(self, step: Step) -> None:
        if isinstance(step, Heading):
            self._print(Text(f"── {step.text} ", "bold"))
        elif isinstance(step, Sentence):
            self._print(_sentence(step.text))
        elif isinstance(step, Point):
            self._beside(str(step.number), step.text, gap=step.number == 1)
        elif isinstance(step, Table):
            self._print(Padding(_columns(step), (0, 0, 0, 2)))
        else:
            self._print(_drawn(step))
        if self._slow:
            time.sleep(_characters(step) / CHARACTERS_A_SECOND)

    def close(self, ending: Ending) -> None:
        self._print(Text("What to take away", "bold"))
        for takeaway in ending.takeaways:
            self._beside("*", takeaway, gap=False)
        self._print(Text("Where it lives in Onceward", "bold"))
        for path in ending.lives_in:
            self._print(Text(f"  {path}", "cyan"), gap=False)

    def _beside(self, mark: str, words: str, *, gap: bool) -> None:
        """A number or a bullet in a column of its own."""
        row = Columns.grid(padding=(0, 2, 0, 0))
        row.add_column(width=3, justify="right")
        row.add_column()
        row.add_row(mark, _sentence(words))
        self._print(Padding(row, 0), gap=gap)

    def _print(self, what: Text | Padding, *, gap: bool = True) -> None:
        if gap:
            self._console.print()
        self._console.print(what, width=min(WIDTH, self._console.width))


def _sentence(words: str) -> Text:
    text = Text()
    for index, piece in enumerate(plain(words).split("`")):
        text.append(piece, "cyan" if index % 2 else "")
    return text


def _columns(table: Table) -> Columns:
    shown = Columns(box=None, pad_edge=False, header_style="bold", padding=(0, 3, 0, 0))
    for column in table.columns:
        shown.add_column(_sentence(column))
    for row in table.rows:
        shown.add_row(*(_sentence(cell) for cell in row))
    return shown


def _drawn(picture: Picture) -> Text:
    text = Text(no_wrap=True, overflow="ignore")
    for line in picture.grid().lines():
        for piece, tone in line:
            text.append(plain(piece), STYLES[tone])
        text.append("\n")
    text.append(picture.title, "italic")
    return text


def _characters(step: Step) -> int:
    """How much there is to read. A picture has few words and much to look at."""
    if isinstance(step, Heading | Sentence | Point):
        return len(step.text)
    if isinstance(step, Table):
        return sum(len(cell) for row in step.rows for cell in row)
    return 8 * CHARACTERS_A_SECOND
