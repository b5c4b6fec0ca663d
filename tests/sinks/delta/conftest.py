"""A Delta table of the test's own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onceward.sinks.delta import DeltaSink
from support.lake import Lake


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Where it is, or will be."""
    return tmp_path / "table"


@pytest.fixture
def lake(table: Path, spark: SparkSession) -> Iterator[Lake[DeltaSink]]:
    """Drivers that write to it."""
    made = Lake(make=lambda: DeltaSink(table), spark=spark)
    yield made
    made.close()
