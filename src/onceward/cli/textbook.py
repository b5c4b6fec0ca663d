"""`onceward textbook`: small stories that run, each about one idea of exactly-once processing."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onceward.cli.interrupts import interrupted_once
from onceward.cli.output import EXIT_USAGE, progress

if TYPE_CHECKING:
    from onceward.textbook.story import Story
    from onceward.textbook.telling import Telling


def textbook(
    name: Annotated[str | None, typer.Argument(help="Which story. Without it: the list of all.")] = None,
    *,
    slow: Annotated[bool, typer.Option("--slow", help="Pause after each step, long enough to read it.")] = False,
    svg: Annotated[Path | None, typer.Option(help="Write the story's picture here; further ones get a number.")] = None,
    pages: Annotated[Path | None, typer.Option(help="Write the page here, or without a name all pages.")] = None,
) -> None:
    """Run a story: what happens step by step, on real servers where it needs some, with a picture."""
    from onceward.textbook import library

    if name is not None and name not in library.NAMES:
        progress(f"onceward: no story is called {name!r}; there are {', '.join(library.NAMES)}")
        raise typer.Exit(EXIT_USAGE)
    if name is None and pages is None:
        return _list()
    wanted = library.NAMES if name is None else (name,)
    with interrupted_once("the servers of the story and their folders are gone"):
        for each in wanted:
            _tell(library.story(each), slow=slow, svg=svg, pages=pages)
    if name is None and pages is not None:
        from onceward.textbook import page

        page.write(pages, {page.INDEX: page.index(library.stories())})
    return None


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from onceward.textbook import library

    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    for story in library.stories():
        table.add_row(story.name, story.question)
    console = Console(highlight=False)
    console.print(table)
    console.print("\nRun one with: onceward textbook NAME")


def _tell(story: "Story", *, slow: bool, svg: Path | None, pages: Path | None) -> None:
    from rich.console import Console

    from onceward.textbook import page
    from onceward.textbook.servers import Servers
    from onceward.textbook.telling import tell
    from onceward.textbook.terminal import Terminal

    logging.getLogger("onceward").addHandler(logging.NullHandler())  # a story tells by itself what goes wrong
    terminal = Terminal(Console(highlight=False), slow=slow)
    terminal.open(story)
    with Servers(report=progress) as servers:
        telling = tell(story, servers, terminal.step)
        terminal.close(telling.ending)
    if pages is not None:
        page.write(pages, page.files(telling))
    if svg is not None:
        _write_pictures(telling, svg)


def _write_pictures(telling: "Telling", svg: Path) -> None:
    from onceward.textbook import page

    stem = svg.stem
    contents = {page.picture_file(stem, at): it.svg() for at, it in enumerate(telling.pictures)}
    page.write(svg.parent, contents)
    progress(f"written: {', '.join(str(svg.parent / it) for it in contents)}")
