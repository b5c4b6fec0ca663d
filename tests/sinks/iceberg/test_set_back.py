"""A table that was rolled back: its marker says what readers see, and nothing is added on top of a gap."""

import pytest

from onceward.errors import MarkerMissing
from onceward.sinks.iceberg import IcebergSink
from support.iceberg import Warehouse
from support.lake import Lake


def epoch_of(driver: IcebergSink) -> int | None:
    last = driver.last_commit()
    return None if last is None else last.epoch


@pytest.fixture
def driver(lake: Lake[IcebergSink]) -> IcebergSink:
    """With epochs 0 to 3 committed."""
    made = lake.driver()
    for epoch in range(4):
        lake.run(made, epoch, range(10 * epoch, 10 * epoch + 10))
    return made


def roll_back(warehouse: Warehouse, epoch: int) -> None:
    (snapshot,) = [
        found
        for found in warehouse.table.snapshots()
        if found.summary is not None and found.summary.additional_properties["onceward.epoch"] == str(epoch)
    ]
    warehouse.table.manage_snapshots().rollback_to_snapshot(snapshot.snapshot_id).commit()


def test_a_table_that_was_rolled_back_tells_the_older_epoch(
    lake: Lake[IcebergSink], warehouse: Warehouse, driver: IcebergSink
) -> None:
    """The table's properties stay as they were, so they alone would not tell."""
    assert epoch_of(driver) == 3
    roll_back(warehouse, 1)
    assert warehouse.ids == list(range(20))
    assert [epoch_of(driver), epoch_of(lake.driver(term=2))] == [1, 1]


def test_a_table_that_was_rolled_back_to_before_us_tells_of_no_epoch(
    lake: Lake[IcebergSink], warehouse: Warehouse, driver: IcebergSink
) -> None:
    lake.run(second := lake.driver(sink="second"), 0, range(100, 110))
    first = warehouse.table.snapshots()[0].snapshot_id
    assert epoch_of(second) == 0
    warehouse.table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert [epoch_of(second), epoch_of(driver)] == [None, 0]


def test_a_roll_back_between_vote_and_commit_stops_the_commit(
    lake: Lake[IcebergSink], warehouse: Warehouse, driver: IcebergSink
) -> None:
    """Requirement B5: decided, it is committed on top of what it follows, or it stops with a name."""
    committable = lake.stage(driver, 4, range(40, 50))
    forward = warehouse.table.metadata.current_snapshot_id
    assert forward is not None
    roll_back(warehouse, 1)
    for committing in (driver, lake.driver(term=2)):
        with pytest.raises(MarkerMissing, match=r"follows epoch 3 .* now says epoch 1 "):
            lake.commit(committing, 4, committable)
    assert warehouse.ids == list(range(20))
    warehouse.table.manage_snapshots().set_current_snapshot(forward).commit()
    lake.commit(driver, 4, committable)
    assert warehouse.ids == list(range(50))


def test_a_marker_counts_when_its_snapshots_have_expired(
    lake: Lake[IcebergSink], warehouse: Warehouse, driver: IcebergSink
) -> None:
    """Others have added to the table since, and an expiry took every snapshot of ours."""
    warehouse.table.append(warehouse.table.scan(limit=1).to_arrow())
    old = [found.snapshot_id for found in warehouse.table.snapshots()][:-1]
    warehouse.table.maintenance.expire_snapshots().by_ids(old).commit()
    assert epoch_of(driver) == 3
    lake.run(driver, 4, range(40, 50))
    assert epoch_of(driver) == 4
