"""State of every kind in another backend and in other numbers of partitions: nothing is lost, nothing is new."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.state_files import PARTITIONS, PROVIDER_CLASS, PROVIDERS
from onceward.epoch.storage import LocalStorage
from onceward.errors import ConfigurationError, HomeMismatch
from onceward.pipeline.rewriting import convert, repartition
from onceward.pipeline.state import State
from pipeline.queries import QUERIES, feed, run

BOTH = [query for query in QUERIES if query != "own"]


class Half:
    """A query that has run over its first two files, and a copy of its checkpoint at another path."""

    def __init__(self, spark: SparkSession, folder: Path, query: str, state: State | None = None) -> None:
        self.spark, self.folder, self.query = spark, folder, query
        self.copy = folder / "copy"
        for number in range(2):
            feed(folder / "in", number)
        run(spark, query, folder / "in", folder / "made", state)
        shutil.copytree(folder / "made", self.copy)
        self.checkpoint = Checkpoint(LocalStorage(self.copy), ".", self.copy.as_uri())
        self.last = self.checkpoint.last_finished() or 0

    def settings(self, epoch: int) -> dict[str, str]:
        return dict(self.checkpoint.settings(epoch))

    def goes_on_alike(self) -> None:
        """The third file gives the same from the copy as from the original."""
        feed(self.folder / "in", 2)
        found = run(self.spark, self.query, self.folder / "in", self.copy)
        expected = run(self.spark, self.query, self.folder / "in", self.folder / "made")
        assert found == expected
        assert found or self.query == "sessions"  # which are still open


@pytest.mark.parametrize("query", BOTH)
def test_state_on_disk_goes_to_the_heap_and_on_from_there(spark: SparkSession, tmp_path: Path, query: str) -> None:
    """E2: of every operator that both backends can keep."""
    half = Half(spark, tmp_path, query)
    epoch = convert(spark, half.copy.as_uri(), half.last, "hashmap")
    assert epoch == half.last + 1 == half.checkpoint.last_finished()
    assert half.settings(epoch)[PROVIDER_CLASS] == PROVIDERS["hashmap"]
    assert half.checkpoint.positions(epoch).texts == half.checkpoint.positions(half.last).texts
    assert list(half.copy.rglob("*.snapshot"))
    assert not list(half.copy.rglob("*.changelog"))
    half.goes_on_alike()


@pytest.mark.parametrize("query", BOTH)
def test_state_in_the_heap_goes_to_disk_and_on_from_there(spark: SparkSession, tmp_path: Path, query: str) -> None:
    """E2: the other way round."""
    half = Half(spark, tmp_path, query, State("hashmap"))
    epoch = convert(spark, half.copy.as_uri(), half.last, "rocksdb")
    assert half.settings(epoch)[PROVIDER_CLASS] == PROVIDERS["rocksdb"]
    assert list(half.copy.rglob("*.zip"))
    assert not list(half.copy.rglob("*.delta"))
    half.goes_on_alike()


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_state_is_spread_over_more_and_then_fewer_partitions(spark: SparkSession, tmp_path: Path, query: str) -> None:
    """E7: transformWithState too, whose notes name the path that the checkpoint had before."""
    half = Half(spark, tmp_path, query)
    shutil.move(tmp_path / "made", tmp_path / "moved")
    wider = repartition(spark, half.copy.as_uri(), 5)
    assert half.settings(wider)[PARTITIONS] == "5"
    narrower = repartition(spark, half.copy.as_uri(), 3)
    assert (wider, narrower) == (half.last + 1, half.last + 2)
    assert half.settings(narrower)[PARTITIONS] == "3"
    shutil.move(tmp_path / "moved", tmp_path / "made")
    half.goes_on_alike()


@pytest.mark.parametrize("query", ["deduplicated", "joined"])
def test_state_in_the_heap_is_spread_by_way_of_the_disk(spark: SparkSession, tmp_path: Path, query: str) -> None:
    """E7: Spark's own way knows RocksDB only, so there are three rewrites."""
    half = Half(spark, tmp_path, query, State("hashmap"))
    epoch = repartition(spark, half.copy.as_uri(), 3)
    assert epoch == half.last + 3
    assert half.settings(epoch) | {PARTITIONS: "2"} == half.settings(half.last)
    half.goes_on_alike()


def test_what_is_so_already_takes_no_epoch(spark: SparkSession, tmp_path: Path) -> None:
    half = Half(spark, tmp_path, "deduplicated")
    assert repartition(spark, half.copy.as_uri(), 2) == half.last
    assert convert(spark, half.copy.as_uri(), half.last, "rocksdb") == half.last
    with pytest.raises(HomeMismatch, match=f"ends at epoch {half.last}, not at 99"):
        convert(spark, half.copy.as_uri(), 99, "hashmap")
    (half.copy / "commits" / str(half.last)).unlink()
    with pytest.raises(HomeMismatch, match="its last epoch is not committed"):
        repartition(spark, half.copy.as_uri(), 3)


def test_state_of_ones_own_stays_on_disk(spark: SparkSession, tmp_path: Path) -> None:
    """E2: Spark keeps it in RocksDB only; the copy is left as it was."""
    half = Half(spark, tmp_path, "own")
    before = sorted(half.copy.rglob("*"))
    with pytest.raises(ConfigurationError, match="transformWithState has no other backend"):
        convert(spark, half.copy.as_uri(), half.last, "hashmap")
    assert sorted(half.copy.rglob("*")) == before
