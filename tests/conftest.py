"""What every test may ask for."""

from collections.abc import Iterator

import pytest

from onceward.kafka.dev_broker import DevBroker
from onceward.kafka.wire import Cluster, Wire
from support.judge import Kafka


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """One real broker for the whole session. Tests share it: use topics and names of your own."""
    with DevBroker(tmp_path_factory.mktemp("kafka"), port=0) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(broker: DevBroker) -> Iterator[Kafka]:
    """That broker as another client library sees it: topics of one's own, a feeder, a judge."""
    wire = Wire(Cluster(broker.bootstrap))
    yield Kafka(broker.bootstrap, wire)
    wire.close()
