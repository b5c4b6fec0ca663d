"""While Spark waits for its Kafka, somebody else notices: a knock beside the epochs."""

import logging
import socket
import threading
import time

import pytest

from onceward.epoch.patience import Patience
from onceward.errors import LookupUnreachable
from onceward.pipeline import source_watch
from onceward.pipeline.source_watch import SourceWatch
from support.waiting import eventually


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_watch, "KNOCK_S", 0.01)


@pytest.fixture
def patience() -> Patience:
    return Patience(60, clock=time.monotonic, sleep=time.sleep)


def test_a_source_that_goes_away_and_comes_back_is_said_once_each_under_the_pipelines_name(
    patience: Patience, caplog: pytest.LogCaptureFixture
) -> None:
    """I5."""
    caplog.set_level(logging.WARNING, "onceward")
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    watch = SourceWatch("orders", [f"127.0.0.1:{port}"], patience)
    watch.started()
    assert patience.shown is None
    listening.close()
    eventually(lambda: patience.shown is not None, "it is shown", 20)
    assert patience.waiting is None  # nobody's patience runs out over it: that is Spark's to say
    with socket.create_server(("127.0.0.1", port)):
        eventually(lambda: patience.shown is None, "it is shown no more", 20)
    watch.ended(None)
    said = [line for line in caplog.messages if "source" in line][:2]
    assert said[0].startswith(f"waiting for the source's Kafka: no Kafka broker listens at 127.0.0.1:{port} (")
    assert said[1].startswith("the source's Kafka is back after ")
    assert {it.pipeline for it in caplog.records} == {"orders"}  # type: ignore[attr-defined]


def test_what_a_sink_waits_for_already_is_not_said_twice(patience: Patience, caplog: pytest.LogCaptureFixture) -> None:
    patience.note(LookupUnreachable("away"), time.monotonic())
    watch = SourceWatch("orders", ["127.0.0.1:1"], patience)
    watch._knock()
    assert [line for line in caplog.messages if "source" in line] == []
    patience.over()
    watch._knock()
    assert patience.beside is not None
    watch.ended(None)
    assert patience.beside is None
    watch._knock()
    assert patience.beside is None


def test_a_pipeline_that_reads_no_kafka_is_not_watched(patience: Patience) -> None:
    SourceWatch("orders", [], patience).started()
    assert "onceward-source-orders" not in [it.name for it in threading.enumerate()]
