"""A target of one's own, and a pipeline over it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset
import pytest
from pyspark.sql import SparkSession

from onceward.sinks.files import FileSink
from onceward.testing import SinkUnderTest
from onceward.testing.rehearsal import Rehearsal

Rehearse = Callable[..., Rehearsal]


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def staging(target: Path) -> Path:
    return target.parent / ".out.onceward"


@pytest.fixture
def rehearse(spark: SparkSession, target: Path, staging: Path) -> Iterator[Rehearse]:
    """Makes a pipeline over a FileSink with these options."""
    made: list[Rehearsal] = []

    def make(path: Path = target, **options: Any) -> Rehearsal:
        under_test = SinkUnderTest(
            make=lambda: FileSink(path, **options),
            visible=lambda: ids(path),
            leftovers=lambda: [each.name for each in staging.iterdir() if each.name not in ("owner.json", "committed")],
        )
        made.append(Rehearsal(spark, under_test))
        return made[-1]

    yield make
    for rehearsal in made:
        rehearsal.close()


def ids(target: Path) -> list[int]:
    """What a reader of Parquet sees."""
    dataset = pyarrow.dataset.dataset(target, format="parquet", partitioning="hive")
    found: list[int] = dataset.to_table().column("id").to_pylist() if dataset.files else []
    return found
