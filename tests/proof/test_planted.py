"""Each planted bug is caught by some checker within a bounded number of schedules (G3)."""

import pytest

from onceward.proof.planted import PLANTS
from onceward.proof.planted.hunt import hunt

BOUND = 10_000


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_caught(name: str) -> None:
    caught = hunt(name, BOUND)
    assert caught.checkers, f"{PLANTS[name].says}: not caught in {BOUND} schedules"


def test_there_are_enough_of_them() -> None:
    assert len(PLANTS) >= 20
