"""Docstrings here say `name: what it is`, a line for each parameter: the site shows those lines as a list."""

import re
from typing import Any, Final

import griffe

_PARAMETER: Final = re.compile(r"^([a-z_]+(?:, [a-z_]+)*): (?=\S)", re.MULTILINE)


class Lists(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = listed(obj.docstring.value)


def listed(text: str) -> str:
    """Each line that begins with a parameter as an item of a list; the first sentence is never one."""
    first, gap, rest = text.partition("\n\n")
    return first + gap + _PARAMETER.sub(r"- **`\1`**: ", rest)
