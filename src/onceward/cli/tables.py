"""Tables as text that fits the terminal, or 80 columns where there is none."""

import io
import shutil
from typing import Final

from rich.console import Console, RenderableType

USUAL: Final = (80, 24)
LEAST: Final = 60  # narrower than that nothing could be read


def printed(what: RenderableType) -> str:
    """Without colours, and without a line end at its end."""
    text = io.StringIO()
    width = max(shutil.get_terminal_size(USUAL).columns, LEAST)
    Console(file=text, width=width, color_system=None, force_terminal=False).print(what)
    return "\n".join(line.rstrip() for line in text.getvalue().rstrip("\n").splitlines())
