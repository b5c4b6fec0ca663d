"""A Spark session for this test process, topics, and readers of another client library as judges."""

import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import onceward as ow
from support.driver import Driver


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark per test process; `local[2,4]` lets tasks be tried again, as a cluster does."""
    session = ow.session("tests", master="local[2,4]", **{"spark.sql.shuffle.partitions": "2"})
    yield session
    session.stop()


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
