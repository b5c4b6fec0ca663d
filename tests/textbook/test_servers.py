"""What a story starts is gone with it, and what it was given stays."""

import tempfile
from pathlib import Path

import pytest

from onceward import processes
from onceward.servers.broker import DevBroker
from onceward.textbook.servers import Servers


@pytest.mark.slow
def test_a_broker_that_a_story_started_is_gone_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told: list[str] = []
    with Servers(report=told.append) as servers:
        broker = servers.broker()
        assert servers.broker() is broker
        assert broker.state() == "ready"
        pid = broker.pid()
        assert pid is not None
    assert told == ["starting a Kafka broker for this story"]
    assert list(tmp_path.iterdir()) == []
    assert pid not in processes.living()


def test_servers_that_were_handed_in_are_left_running(broker: DevBroker) -> None:
    with Servers(broker=broker) as servers:
        assert servers.broker() is broker
    assert broker.state() == "ready"
