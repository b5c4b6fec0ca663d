"""The stories that need no server: each told, and its last state asserted."""

from onceward.textbook.servers import Servers
from onceward.textbook.stories import barriers, chandy_lamport
from textbook.told import told


def test_chandy_and_lamports_run_ends_with_one_message_in_one_channel() -> None:
    """Requirements D2, D3, H1."""
    assert told("chandy-lamport", Servers()).ending.last == chandy_lamport.Last(
        states={"P1": ("A", "B"), "P2": ("E", "F", "G", "H"), "P3": ("I", "J")},
        channels={"C21": ("H->D",)},
        violations=(),
    )


def test_aligned_barriers_count_each_record_once_and_store_only_the_way_back() -> None:
    """Requirements D4, H1."""
    once = dict.fromkeys((1, 2, 3, 11, 12, 13), 1)
    assert told("barriers", Servers()).ending.last == barriers.Last(
        aligned=once,
        not_aligned=once | {12: 2, 13: 2},
        stored={},
        stored_in_the_cycle={"pack -> check": [1, 2]},
        shipped={1: 1, 2: 1, 3: 1},
    )
