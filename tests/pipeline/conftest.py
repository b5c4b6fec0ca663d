"""Soft crashes: a driver that dies at a named point, in this process."""

from collections.abc import Callable

import pytest

from support.crashes import SoftCrashes


@pytest.fixture
def crash_at(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the driver die at a named point, the nth time it is reached; None: the next one lives."""
    return SoftCrashes(monkeypatch).arm
