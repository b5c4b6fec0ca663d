"""The files that a reader of the tutorial makes."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial" / "ads.md"


def tutorial_file(name: str) -> str:
    """A block that begins with its name is a file; `ads.py` is all the others, one after the other."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    named = {match[1]: it for it in blocks if (match := re.match(r"# (\w+\.py)\n", it))}
    return named[name] if name != "ads.py" else "\n\n".join(it for it in blocks if it not in named.values())
