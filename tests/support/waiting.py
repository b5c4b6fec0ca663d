"""Wait on conditions, never on time."""

import time
from collections.abc import Callable

DEADLINE_S = 120.0


def eventually(
    condition: Callable[[], object], what: str, deadline_s: float = DEADLINE_S, every_s: float = 0.05
) -> None:
    """Wait on a condition, with a deadline."""
    until = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < until, f"not within {deadline_s} s: {what}"
        time.sleep(every_s)
