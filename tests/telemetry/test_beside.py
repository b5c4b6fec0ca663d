# ruff: noqa: ARG002 - an observer's methods take what they are told
"""What talks to a server does so beside the epochs, whatever the server does."""

import logging
import threading
import time

import pytest

from epoch.test_observing import Seen
from onceward.epoch.ledger import Entry
from onceward.epoch.observing import AbortedTry, Course, Observer
from onceward.telemetry import beside
from onceward.telemetry.beside import Beside
from support.clocks import MONOTONIC
from watching.test_showing import entry


def test_everything_arrives_in_order_and_before_the_end() -> None:
    seen = Seen()
    other = Beside(seen)
    other.started()
    other.aborted(0, AbortedTry(1, "X", "x", 0.0))
    for epoch in range(50):
        other.committed(entry(epoch), Course(epoch, MONOTONIC))
    other.failed(50, None, RuntimeError("x"))
    other.ended(None)
    assert [it.epoch for it in seen.entries] == list(range(50))
    assert (len(seen.tries), len(seen.failures), seen.rest) == (1, 1, ["started", None])


def test_a_server_that_hangs_neither_slows_nor_stops_an_epoch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """I2: what it cannot take is left out, which is said once; the end does not wait for ever."""
    monkeypatch.setattr(beside, "END_S", 0.05)
    over = threading.Event()

    class Hangs(Observer):
        def committed(self, entry: Entry, course: Course) -> None:
            over.wait(60)

    other, began = Beside(Hangs(), room=10), time.monotonic()
    with caplog.at_level(logging.WARNING, "onceward"):
        for epoch in range(1000):
            other.committed(entry(epoch), Course(epoch, MONOTONIC))
        other.ended(None)
    assert time.monotonic() - began < 5
    assert [getattr(it, "event", "") for it in caplog.records] == ["telemetry_left_out"]
    over.set()


def test_a_server_that_is_away_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    class Away(Observer):
        def committed(self, entry: Entry, course: Course) -> None:
            raise ConnectionError("refused")

    other = Beside(Away())
    with caplog.at_level(logging.WARNING, "onceward"):
        for epoch in range(5):
            other.committed(entry(epoch), Course(epoch, MONOTONIC))
        other.ended(None)
    assert [getattr(it, "event", "") for it in caplog.records] == ["telemetry_failed"]
    assert "ConnectionError: refused" in caplog.text
