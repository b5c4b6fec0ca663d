"""The stories that need no server: each told, and its last state asserted."""

from onceward.textbook.servers import Servers
from onceward.textbook.stories import chandy_lamport
from textbook.told import told


def test_chandy_and_lamports_run_ends_with_one_message_in_one_channel() -> None:
    """Requirements D2, D3, H1."""
    assert told("chandy-lamport", Servers()).ending.last == chandy_lamport.Last(
        states={"P1": ("A", "B"), "P2": ("E", "F", "G", "H"), "P3": ("I", "J")},
        channels={"C21": ("H->D",)},
        violations=(),
    )
