"""The demo's input is in its topics once, also when the broker dies under it: else a doubled input is taken for a
doubled output."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onceward.apps.ads import words
from onceward.apps.ads.world.generator import generate
from onceward.demo.feeder import CLOSING_MS, Feeder, heartbeat
from onceward.demo.servers import Servers
from onceward.kafka.wire import Cluster, Wire
from support.judge import Kafka
from support.waiting import eventually

KILLS = 3


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="onceward-test-feeder-"))
    made.chmod(0o755)  # PostgreSQL looks into it as another user
    yield made
    shutil.rmtree(made)


@pytest.mark.slow
def test_every_record_is_fed_once_although_the_broker_is_killed(folder: Path) -> None:
    """F4. A broker that starts again forgets producers of old records, and these are of long ago."""
    made = generate(20_000, seed=3)
    with Servers(folder, made.catalogue, [""], report=lambda _: None) as servers:
        feeder = Feeder(servers.bootstrap, servers.dsn, made, kills=KILLS)
        feeder.start()
        for _ in range(KILLS):
            before = feeder.fed
            eventually(lambda before=before: feeder.fed > before, "it feeds")  # type: ignore[misc]
            servers.bounce_broker()
            feeder.next_phase()
        eventually(lambda: feeder.all_but_closed or feeder.failure is not None, "every event is fed")
        with closing(Wire(Cluster(servers.bootstrap))) as wire:
            early = [it.key() for name in words.RAW for it in Kafka(servers.bootstrap, wire).read(name)]
        closed_by = heartbeat(made.end_ms + CLOSING_MS)
        assert closed_by.key not in early, "time passes when it is told to, after every event was read"
        feeder.close()
        eventually(lambda: feeder.fed == feeder.total or feeder.failure is not None, "all is fed")
        assert feeder.failure is None
        feeder.end()
        with closing(Wire(Cluster(servers.bootstrap))) as wire:
            kafka = Kafka(servers.bootstrap, wire)
            seen = Counter((it.topic(), it.key(), it.value()) for name in words.RAW for it in kafka.read(name))
    assert seen == Counter((it.topic, it.key, it.value) for it in [*made.records, closed_by])
