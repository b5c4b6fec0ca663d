"""A story as a page of docs/textbook, with its pictures beside it."""

import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from onceward.textbook.pictures import Picture
from onceward.textbook.stage import Heading, Point, Sentence, Step, Table
from onceward.textbook.story import Story
from onceward.textbook.telling import Telling

WIDTH: Final = 120
INDEX: Final = "README.md"


def files(telling: Telling) -> dict[str, str]:
    """Name and content of the page and of each of its pictures."""
    name = telling.story.name
    pictures = {picture_file(name, at): it.svg() for at, it in enumerate(telling.pictures)}
    return {f"{name}.md": _page(telling), **pictures}


def picture_file(stem: str, index: int) -> str:
    return f"{stem}.svg" if index == 0 else f"{stem}-{index + 1}.svg"


def write(folder: Path, contents: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_text(content, "utf-8")


def index(stories: Iterable[Story]) -> str:
    lines = [
        "# The textbook that runs",
        "",
        _wrapped(
            "Each page is a story that `onceward textbook NAME` runs in your terminal, in a few seconds. Those about "
            "Kafka, PostgreSQL and Spark start a real one and show its real answers; none replays a recording. The "
            "pages are written by the same command (`onceward textbook --pages docs/textbook`), and a test keeps "
            "them current."
        ),
        "",
        "| story | the question | runs on |",
        "|---|---|---|",
    ]
    lines += [
        f"| [{it.title}]({it.name}.md) | {it.question} | {', '.join(it.needs) or 'nothing else'} |" for it in stories
    ]
    return "\n".join(lines) + "\n"


def _page(telling: Telling) -> str:
    story, ending = telling.story, telling.ending
    needs = f" It starts {_listed([f'a {it}' for it in story.needs])} for itself." if story.needs else ""
    parts = [
        f"# {story.title}",
        f"*{story.question}*",
        f"Run it: `onceward textbook {story.name}`.{needs} This page is what it said.",
    ]
    drawn = 0
    for step in telling.steps:
        shown = _step(step, picture_file(story.name, drawn))
        if isinstance(step, Point) and step.number > 1:
            parts[-1] += f"\n{shown}"
        else:
            parts.append(shown)
        drawn += isinstance(step, Picture)
    parts += ["## What to take away", "\n".join(_wrapped(f"- {it}", hanging="  ") for it in ending.takeaways)]
    links = "\n".join(f"- [{path}](../../{path})" for path in ending.lives_in)
    parts += ["## Where it lives in Onceward", links]
    return "\n\n".join(parts) + "\n"


def _listed(words: list[str]) -> str:
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), words[-1]])


def _step(step: Step, picture: str) -> str:
    if isinstance(step, Heading):
        return f"## {step.text}"
    if isinstance(step, Sentence):
        return _wrapped(step.text)
    if isinstance(step, Point):
        return _wrapped(f"{step.number}. {step.text}", hanging=" " * len(f"{step.number}. "))
    if isinstance(step, Table):
        rows = [step.columns, ("---",) * len(step.columns), *step.rows]
        return "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)
    return f"![{step.title}]({picture})\n\n*{step.title}*"


def _wrapped(text: str, hanging: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
