"""Tells a story in a test, and looks at what every story must keep: time, width, its page, the paths it names."""

import io
import time
from pathlib import Path

from rich.console import Console

from onceward.textbook import library, page
from onceward.textbook.servers import Servers
from onceward.textbook.telling import Telling, tell
from onceward.textbook.terminal import Terminal

ROOT = Path(__file__).parents[2]
SECONDS = 30


def told(name: str, servers: Servers) -> Telling:
    """The story's last state is the caller's to assert."""
    shown = io.StringIO()
    terminal = Terminal(Console(file=shown, width=80))
    began = time.monotonic()
    with servers:
        telling = tell(library.story(name), servers, terminal.step)
    terminal.close(telling.ending)
    assert time.monotonic() - began < SECONDS
    assert [line for line in shown.getvalue().splitlines() if len(line) > 80] == []
    assert [path for path in telling.ending.lives_in if not (ROOT / path).exists()] == []
    assert telling.ending.takeaways
    assert telling.pictures, "a story has a picture"
    assert_current(telling)
    return telling


def assert_current(telling: Telling) -> None:
    """The page and pictures in docs/textbook are what this run said."""
    folder = ROOT / "docs" / "textbook"
    made = page.files(telling)
    kept = {path.name for path in folder.glob(f"{telling.story.name}*") if _belongs(path.stem, telling.story.name)}
    how = f"write them anew: onceward textbook {telling.story.name} --pages docs/textbook"
    assert kept == made.keys(), how
    for file, content in made.items():
        assert (folder / file).read_text("utf-8") == content, f"{file} is not current; {how}"


def _belongs(stem: str, name: str) -> bool:
    rest = stem.removeprefix(name)
    return rest == "" or (rest[0] == "-" and rest[1:].isdigit())
