"""What every test may ask for."""

import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from onceward import secret
from onceward.kafka.wire import Cluster, Wire
from onceward.servers.broker import DevBroker
from onceward.servers.postgres import PostgresServer
from support import short_lived
from support.driver import Driver
from support.judge import Kafka
from support.postgres import ACCESS, LOCKED

pytest_plugins = ["support.tiers", "support.timings"]
short_lived.settle()


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process hides what was ever a secret in it; a test's password is another test's plain word."""
    monkeypatch.setattr(secret, "_known", secret._Known())


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevBroker]:
    """One real broker for each test process. Tests share it: use topics and names of your own."""
    with DevBroker(tmp_path_factory.mktemp("kafka"), port=0) as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka(broker: DevBroker) -> Iterator[Kafka]:
    """That broker as another client library sees it: topics of one's own, a feeder, a judge."""
    wire = Wire(Cluster(broker.bootstrap))
    with closing(wire), closing(Kafka(broker.bootstrap, wire)) as kafka:
        yield kafka


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One real PostgreSQL for each test process. Tests share it: use a database of your own."""
    with PostgresServer(access=ACCESS) as server:
        with server.connect() as admin:
            admin.execute(LOCKED)
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark per test process; `local[2,4]` lets tasks be tried again, as a cluster does."""
    session = ow.session("tests", master="local[2,4]", **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _settings_of_its_own(request: pytest.FixtureRequest) -> None:
    """A command that runs in this process makes a session of its own, which is the shared one with other settings."""
    if "spark" in request.fixturenames:
        request.getfixturevalue("spark").conf.set("spark.sql.shuffle.partitions", "2")


@pytest.fixture
def name() -> str:
    """A pipeline name of this test's own."""
    return f"p-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def drivers(tmp_path: Path) -> Iterator[Callable[[str], Driver]]:
    """Makes drivers from the text of a pipeline file; none outlives the test."""
    made: list[Driver] = []

    def make(text: str) -> Driver:
        file = tmp_path / f"pipeline_{len(made)}.py"
        file.write_text(text)
        made.append(Driver(file, tmp_path / f"driver_{len(made)}.log"))
        return made[-1]

    yield make
    for driver in made:
        if driver.process is not None and driver.process.poll() is None:
            driver.signal_all(signal.SIGCONT)
            driver.kill()
