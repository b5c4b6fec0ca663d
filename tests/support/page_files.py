"""The files that a reader of a page makes: its blocks of code that begin with a file's name."""

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def files_of(page: Path) -> dict[str, str]:
    """By their names."""
    return files_in(page.read_text("utf-8"))


def files_in(text: str) -> dict[str, str]:
    """The same, of a page's text."""
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return {name[1]: block for block in blocks if (name := re.match(r"# (\w+\.py)\n", block))}


def write_files(page: Path, folder: Path, **instead: str) -> None:
    """Into a folder, with other addresses than the page's: `localhost:9092` is told by its port, `port_9092=...`."""
    for name, text in files_of(page).items():
        for port, address in instead.items():
            text = text.replace(f"localhost:{port.removeprefix('port_')}", address)  # noqa: PLW2901 - step by step
        (folder / name).write_text(text)
