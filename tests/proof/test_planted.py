"""Each planted bug is caught by some checker within a bounded number of schedules (G3)."""

import json
from pathlib import Path

import pytest

from onceward.proof.planted import PLANTS
from onceward.proof.planted.hunt import hunt

BOUND = 10_000
# Where each showed when somebody last looked (`onceward simulate --planted --json`). A change of the simulation moves
# them: then the hunt begins with the first seed again, and takes longer.
SEEDS: dict[str, int] = json.loads(Path(__file__).with_name("planted_seeds.json").read_text())
NEARBY = 10


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_caught(name: str) -> None:
    caught = hunt(name, NEARBY, SEEDS[name]) if name in SEEDS else None
    if caught is None or not caught.checkers:
        caught = hunt(name, BOUND)
    assert caught.checkers, f"{PLANTS[name].says}: not caught in {BOUND} schedules"


def test_there_are_enough_of_them() -> None:
    assert len(PLANTS) >= 20
