"""What is left of a Delta table's log if the power goes: no hole that would cut off what was committed after it."""

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from onceward.sinks.delta import DeltaSink
from support.lake import Lake
from support.power_cut import watched


def test_entries_of_other_writers_and_checkpoints_outlive_a_power_cut_too(
    lake: Lake[DeltaSink], table: Path, tmp_path: Path
) -> None:
    """Requirement B5: an entry that is lost would take every later one with it."""
    driver = lake.driver()
    with watched(tmp_path) as disk:
        lake.run(driver, 0, range(10))
        for round_ in range(3):
            write_deltalake(table, pa.table({"id": [100 + round_], "text": ["theirs"]}), mode="append")
        if_not_synced = [name for name in disk.lost() if name.endswith(".json")]
        assert len(if_not_synced) == 3
        lake.run(driver, 1, range(10, 20))
        assert [name for name in disk.lost() if "_delta_log/0" in name] == []
        DeltaTable(table).create_checkpoint()
        lake.run(driver, 2, range(20, 30))
        assert [name for name in disk.lost() if "_delta_log/0" in name] == []
        assert any(name.endswith(".checkpoint.parquet") for name in disk.survivors())


def test_a_driver_that_repeats_a_commit_syncs_what_its_predecessor_may_not_have(
    lake: Lake[DeltaSink], tmp_path: Path
) -> None:
    """It died after the entry was there, and before it was synced."""
    driver = lake.driver()
    committable = lake.stage(driver, 0, range(10))
    with watched(tmp_path) as disk:
        driver._publish(0, committable)
        assert [name for name in disk.lost() if "_delta_log/0" in name] != []
        lake.commit(lake.driver(term=2), 0, committable)
        assert [name for name in disk.lost() if "_delta_log/0" in name] == []
