"""What a run of the chaos runner notes down."""

from pathlib import Path

from onceward.proof.chaos.seen import Seen


def test_a_point_is_tried_until_it_was_missed_three_times_and_for_ever_once_it_was_reached(tmp_path: Path) -> None:
    """G1: a broker that is away keeps a driver from a point; that says nothing about whether the job comes there."""
    seen = Seen(tmp_path)
    for _ in range(2):
        seen.unreached["begun"] += 1
        assert seen.worth_trying("begun")
    seen.unreached["begun"] += 1
    assert not seen.worth_trying("begun")
    seen.reached("begun")
    assert seen.worth_trying("begun")
