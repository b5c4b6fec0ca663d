"""Each planted bug is caught by some checker within a bounded number of schedules (G3)."""

import json
from pathlib import Path
from typing import Any

import pytest

from onceward.proof.planted import COORDINATOR, PLANTS, RUNNER
from onceward.proof.planted.hunt import hunt
from onceward.proof.simulation.patching import found

BOUND = 10_000
# Where each showed when somebody last looked (`onceward simulate --planted --json`). A change of the simulation moves
# them: then the hunt begins with the first seed again, and takes longer.
SEEDS: dict[str, int] = json.loads(Path(__file__).with_name("planted_seeds.json").read_text())
NEARBY = 10
BOUND_BY_THE_DRIVER = {COORDINATOR, RUNNER}  # the simulated driver puts these together, as a pipeline does


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_caught(name: str) -> None:
    caught = hunt(name, NEARBY, SEEDS[name]) if name in SEEDS else None
    if caught is None or not caught.checkers:
        caught = hunt(name, BOUND)
    assert caught.checkers, f"{PLANTS[name].says}: not caught in {BOUND} schedules"


def test_where_each_showed_is_known() -> None:
    assert set(SEEDS) == set(PLANTS)


def test_there_are_enough_of_them() -> None:
    assert len(PLANTS) >= 20


@pytest.mark.parametrize("target", sorted({target for plant in PLANTS.values() for target in plant.patches}))
def test_a_planted_bug_breaks_production_code_and_no_stand_in(target: str) -> None:
    """G3: else it would show that a stand-in is judged."""
    owner, name = found(target)
    piece: Any = owner.__dict__[name]
    while not hasattr(piece, "__module__"):
        piece = piece.fget
    assert not getattr(piece, "fget", piece).__module__.startswith("onceward.proof")
    assert not target.startswith("onceward.proof") or target in BOUND_BY_THE_DRIVER
