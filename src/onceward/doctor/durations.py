"""Durations as people write and read them: 3d, 12h, 90min."""

import re
from typing import Final

from onceward.errors import ConfigurationError

SECONDS: Final = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


def seconds(text: str) -> int:
    """Of 3d, 12h, 90min, 30s."""
    found = re.fullmatch(r"(\d+)\s*(d|h|min|s)", text.strip())
    if found is None:
        raise ConfigurationError(f"{text!r} is no duration; write it as 3d, 12h, 90min or 30s")
    return int(found[1]) * SECONDS[found[2]]


def in_words(of: float) -> str:
    """In the largest unit that fits."""
    for unit, size in SECONDS.items():
        if of >= size:
            return f"{of / size:.3g} {unit}"
    return f"{of:.3g} s"
