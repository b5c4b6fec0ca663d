"""The three modes side by side, and the page that shows them and the worked run."""

from pathlib import Path
from random import Random

import pytest

from onceward.snapshot_algorithms.barriers.comparison import SITUATIONS, Measured, compare, table
from onceward.snapshot_algorithms.chandy_lamport.worked_run import STEPS, diagram

PAGE = (Path(__file__).parents[2] / "docs" / "snapshots-explained.md").read_text("utf-8")


@pytest.fixture(scope="module")
def measured() -> list[Measured]:
    return compare(Random)


def test_each_mode_pays_in_its_own_coin(measured: list[Measured]) -> None:
    """D4: aligned in waiting, unaligned in bytes, at least once in doubled records."""
    found = {(it.situation, it.mode): it for it in measured}
    for situation in SITUATIONS:
        aligned, careless, unaligned = (
            found[situation.says, mode] for mode in ("aligned", "at least once", "unaligned")
        )
        assert all(it.figures.snapshots >= 10 for it in (aligned, careless, unaligned))
        assert aligned.figures.blocked_steps > 0
        assert careless.figures.blocked_steps == unaligned.figures.blocked_steps == 0
        assert (aligned.figures.in_flight_bytes > 0) == (situation.laps > 0)
        assert unaligned.per_snapshot(unaligned.figures.in_flight_bytes) > aligned.per_snapshot(
            aligned.figures.in_flight_bytes
        )
        assert careless.doubled > 0
        assert aligned.doubled == unaligned.doubled == aligned.lost == careless.lost == unaligned.lost == 0


def test_with_long_queues_unaligned_barriers_are_through_long_before_the_others(measured: list[Measured]) -> None:
    """D4."""
    queues = {it.mode: it.per_snapshot(it.figures.steps_under_way) for it in measured if "long queues" in it.situation}
    assert queues["unaligned"] * 10 < queues["aligned"]


def test_the_pages_table_is_what_is_measured(measured: list[Measured]) -> None:
    """D4."""
    assert table(measured) in PAGE


def test_the_page_draws_and_tells_the_worked_run() -> None:
    """D2."""
    assert diagram() in PAGE
    assert "\n".join(f"| {number} | {step.says} |" for number, step in enumerate(STEPS, 1)) in PAGE
