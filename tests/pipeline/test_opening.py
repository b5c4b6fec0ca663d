"""What a start hands to those who wait: without Spark, broker or home."""

import logging
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import onceward as ow
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.patience import SinkOutage
from onceward.epoch.runner import Stopping
from onceward.errors import PipelineFenced
from onceward.kafka.wire import SAID_AFTER_S
from onceward.pipeline.opening import stoppable_patience, take_over


class Term:
    """A driver's, for as long as nobody newer has begun."""

    is_over = False

    def require_current(self) -> None:
        if self.is_over:
            raise PipelineFenced("a newer driver")


def coordinator(monkeypatch: pytest.MonkeyPatch, sinks: dict[str, Any], patience_s: float | None) -> Coordinator:
    """As `take_over` makes it, once the home is ours."""

    def begun(made: Callable[[Any], Any], *_: Any, **__: Any) -> Any:
        return made(Term())

    start: Any = SimpleNamespace(sinks=sinks, take_over=begun)
    made: Any = take_over(start, patience_s=patience_s)
    assert isinstance(made, Coordinator)
    return made


def test_a_kafka_of_a_sinks_own_that_does_not_answer_is_said_by_its_name_and_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """I3: its connections wait by themselves for a while, so they have to know whom to tell."""
    first, second = (ow.KafkaSink("localhost:9", topic=name) for name in ("a", "b"))
    made = coordinator(monkeypatch, {"first": first, "second": second, "other": ow.FunctionSink(print)}, 60.0)
    assert made.patience is not None
    assert (first.wire.outage, second.wire.outage) == (
        SinkOutage(made.patience, "first"),
        SinkOutage(made.patience, "second"),
    )
    second.wire._lost_since = time.monotonic() - SAID_AFTER_S - 1
    with caplog.at_level(logging.WARNING, "onceward.epoch"):
        for _ in range(3):
            second.wire._note_loss("nobody there")
    assert [it.partition(" (")[0] for it in caplog.messages] == ["waiting for sink 'second': nobody there"]


def test_where_nothing_is_waited_for_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = ow.KafkaSink("localhost:9", topic="a")
    assert coordinator(monkeypatch, {"kafka": sink}, None).patience is None
    assert sink.wire.outage is None


def test_who_waits_asks_after_each_pause_for_a_newer_driver_and_for_a_stop() -> None:
    """C6: a newer driver is the news, also where somebody has asked for a stop."""
    term: Any = Term()
    stop = threading.Event()
    patience = stoppable_patience(60.0, lambda: False, stop, term)
    patience.keep_on()
    stop.set()
    with pytest.raises(Stopping):
        patience.keep_on()
    with pytest.raises(Stopping):
        stoppable_patience(60.0, lambda: True, None, term).keep_on()
    term.is_over = True
    with pytest.raises(PipelineFenced):
        patience.keep_on()
