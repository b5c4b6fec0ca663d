"""What the lake sinks leave if the power goes: nothing that was voted for or committed is lost."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyspark.sql import SparkSession

from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.sinks.delta import DeltaSink
from onceward.sinks.parquet import staging
from onceward.sinks.parquet.sink import LakeSink
from support.iceberg import Warehouse, properties_of
from support.power_cut import Disk, watched

OWNER = Owner(pipeline="p", lineage="l", term=1, guarantee=Guarantee.EXACTLY_ONCE, sink="s")


@pytest.fixture(params=["delta", "iceberg"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LakeSink]:
    if request.param == "delta":
        made: LakeSink = DeltaSink(tmp_path / "lake" / "deep" / "table")
        yield made
        made.close()
        return
    with load_catalog("lake", **properties_of(tmp_path)) as catalog:
        made = Warehouse(tmp_path, catalog).sink()
        yield made
        made.close()


def prepare(sink: LakeSink, spark: SparkSession, epoch: int, rows: int = 10) -> tuple[EpochContext, dict[str, object]]:
    """The short way, in this process; tasks run the same code."""
    context = EpochContext(epoch=epoch, input_rows=10)
    sink.begin(context)
    outcome = sink.write(context, spark.range(10 * epoch, 10 * epoch + rows))
    return context, dict(sink.pre_commit(context, outcome))


def lost(disk: Disk) -> list[str]:
    """The catalogue is a database, which syncs itself; checkpoints' marks of Delta's log can be found out again."""
    return [name for name in disk.lost() if "catalog.db" not in name and "_last_checkpoint" not in name]


@pytest.mark.parametrize("inline", [staging.INLINE_BYTES, 0], ids=["few files", "with a manifest"])
def test_what_is_voted_for_outlives_a_power_cut(
    spark: SparkSession, sink: LakeSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inline: int
) -> None:
    """Requirement B2: durable and not visible, before the decision."""
    monkeypatch.setattr(staging, "INLINE_BYTES", inline)
    with watched(tmp_path) as disk:
        sink.open(OWNER)
        context, committable = prepare(sink, spark, 0)
        staged = [name for name in disk.survivors() if "/onceward-" in name]
        assert sorted(Path(name).suffix for name in staged) == [".manifest", ".parquet"][inline > 0 :]
        assert lost(disk) == [], "a table that is made with its first rows has to be there for their commit"
        sink.commit(context, committable)
        prepare(sink, spark, 1)
        assert lost(disk) == []


def test_what_is_committed_outlives_a_power_cut(spark: SparkSession, sink: LakeSink, tmp_path: Path) -> None:
    """Requirement B5: the files, the log that names them, and every folder on the way."""
    with watched(tmp_path) as disk:
        sink.open(OWNER)
        for epoch in range(3):
            context, committable = prepare(sink, spark, epoch)
            sink.commit(context, committable)
            assert lost(disk) == []


def test_a_table_that_is_made_for_no_rows_outlives_a_power_cut(
    spark: SparkSession, sink: LakeSink, tmp_path: Path
) -> None:
    with watched(tmp_path) as disk:
        sink.open(OWNER)
        context, committable = prepare(sink, spark, 0, rows=0)
        assert (disk.survivors(), lost(disk)) != (frozenset(), [])
        assert lost(disk) == []
        sink.commit(context, committable)
        assert lost(disk) == []
