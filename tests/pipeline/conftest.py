"""Soft crashes: a driver that dies at a named point, in this process."""

from collections.abc import Callable

import pytest

from onceward import crashpoints
from onceward.pipeline import opening


class Crash(Exception):
    """Stands for the death of the driver."""


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the driver fail at a named point, the nth time it is reached; None: no more."""

    def arm(point: str | None, nth: int = 1) -> None:
        left = [nth]

        def reach(reached: str, epoch: int | None = None) -> None:
            if reached == point:
                left[0] -= 1
                if left[0] <= 0:
                    raise Crash(f"Crash at {reached}, epoch {epoch}")

        monkeypatch.setattr(crashpoints, "reach", reach)
        monkeypatch.setattr(opening, "FINAL", (*opening.FINAL, Crash))  # a dead driver tries nothing again

    return arm
