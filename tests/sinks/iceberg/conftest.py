"""An Iceberg table of the test's own, in a SQL catalogue of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from onceward.sinks.iceberg import IcebergSink
from support.iceberg import Warehouse, properties_of
from support.lake import Lake


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    with load_catalog("lake", **properties_of(tmp_path)) as catalog:
        yield Warehouse(tmp_path, catalog)


@pytest.fixture
def lake(warehouse: Warehouse, spark: SparkSession) -> Iterator[Lake[IcebergSink]]:
    """Drivers that write to the table."""
    made = Lake(make=warehouse.sink, spark=spark)
    yield made
    made.close()
