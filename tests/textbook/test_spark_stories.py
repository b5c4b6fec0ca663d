"""The stories about state, on a real Spark."""

import pytest
from pyspark.sql import SparkSession

from onceward.textbook.servers import Servers
from onceward.textbook.stories import savepoints, state_backends
from onceward.textbook.stories.state_backends import Written
from textbook.told import told


@pytest.mark.slow
def test_every_backend_writes_little_when_little_has_changed(spark: SparkSession) -> None:
    """Requirements E2, E3."""

    def epochs(*files: tuple[str, ...]) -> tuple[Written, ...]:
        return tuple(Written(names, small=epoch > 0) for epoch, names in enumerate(files))

    assert told("state-backends", Servers(spark=spark)).ending.last == state_backends.Last(
        written={
            "rocksdb": epochs(("1.changelog",), ("2.changelog",), ("3.changelog",)),
            "rocksdb, full": epochs(*((f"{version}.zip", "a new .sst") for version in (1, 2, 3))),
            "hashmap": epochs(("1.delta",), ("2.delta",), ("3.delta",)),
        },
        keys={"rocksdb": 20_000, "rocksdb, full": 20_000, "hashmap": 20_000},
        refused="ConfigurationError",
    )


@pytest.mark.slow
def test_an_old_savepoint_is_refused_and_begins_a_copy(spark: SparkSession) -> None:
    """Requirements E6, E8, E10."""
    totals = {"anna": 700, "ben": 300, "cleo": 900}
    assert told("savepoints", Servers(spark=spark)).ending.last == savepoints.Last(
        orders=totals,
        copy={"anna": 700, "cleo": 900},
        changed=(
            ("changed", "anna", "500", "700"),
            ("added", "cleo", "-", "900"),
            ("the same", "1 other", "", ""),
        ),
        refused="sink 'file' has committed epoch 1 since: 2 records, would be committed a second time",
        after_the_refusal=totals,
    )
