"""What every test may ask for."""

from collections.abc import Iterator

import pytest

from onceward.kafka.dev_broker import DevBroker


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """One real broker for the whole session. Tests share it: use topics and names of your own."""
    with DevBroker(tmp_path_factory.mktemp("kafka"), port=0) as broker:
        yield broker
