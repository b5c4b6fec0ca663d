"""A story that people read to its end: waiting in circles is told once."""

import re
from typing import Final

_CIRCLE: Final = 4  # lines in which the same thing may come back: wait, send, answer
_NUMBER: Final = re.compile(r"^ *\d+  ")
_VARIES: Final = re.compile(r"[\d.]+ s$")


def condensed(lines: list[str]) -> list[str]:
    """The same, with repetitions counted."""
    kept: list[str] = []
    recent: list[str] = []
    skipped = 0
    for line in lines:
        text = _VARIES.sub("", _NUMBER.sub("", line))
        if text in recent:
            skipped += 1
            continue
        if skipped:
            kept.append(f"      ... and {skipped} steps of the same")
            skipped = 0
        kept.append(line)
        recent = [*recent[1 - _CIRCLE :], text]
    return kept if not skipped else [*kept, f"      ... and {skipped} steps of the same"]
