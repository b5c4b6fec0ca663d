"""Commits to an Iceberg table in every order, with others at work on it: each row is there once."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.expressions import EqualTo

from onceward.epoch.contract import EpochContext, Guarantee
from onceward.errors import PipelineFenced, StagingLost, TargetUnusable
from onceward.sinks.iceberg import IcebergSink
from onceward.sinks.parquet import staging
from support.iceberg import Warehouse
from support.lake import Lake, all_end_well, attempt, committing_processes, reading_of
from support.paused import PausedCommits, Seen


def foreign_append(warehouse: Warehouse, number: int) -> None:
    warehouse.table.append(pa.table({"id": [number], "text": ["foreign"]}))


def rewrite(warehouse: Warehouse) -> None:
    """What a compaction does: the same rows in other files."""
    table = warehouse.table
    table.overwrite(table.scan().to_arrow())


def expire_all_but_the_current(warehouse: Warehouse) -> None:
    table = warehouse.table
    current = table.current_snapshot()
    assert current is not None
    old = [found.snapshot_id for found in table.snapshots() if found.snapshot_id != current.snapshot_id]
    table.maintenance.expire_snapshots().by_ids(old).commit()
    assert len(warehouse.table.snapshots()) == 1


class TestPaused(PausedCommits):
    @pytest.fixture
    def seen(self, warehouse: Warehouse) -> Seen:
        return lambda: sorted(warehouse.ids)


def test_an_epoch_is_one_snapshot_that_says_whose_it_is(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    driver = lake.driver(term=3)
    lake.run(driver, 0, range(10))
    lake.run(driver, 1, range(10, 20))
    snapshots = warehouse.table.snapshots()
    assert len(snapshots) == 2
    newest = warehouse.table.current_snapshot()
    assert newest is not None
    assert newest.summary is not None
    told = {key: newest.summary[key] for key in newest.summary.additional_properties if key.startswith("onceward.")}
    assert told == {
        "onceward.pipeline": "p",
        "onceward.sink": "s",
        "onceward.lineage": "lineage-1",
        "onceward.epoch": "1",
        "onceward.term": "3",
    }
    assert warehouse.table.properties["onceward/p/s/lineage-1"] == "1"
    assert "commit.retry.num-retries" not in warehouse.table.properties


def test_pyiceberg_itself_would_repeat_a_commit_on_top_of_a_successor_s(
    lake: Lake[IcebergSink], warehouse: Warehouse
) -> None:
    """Why it may not retry: on a conflict it appends the same files again, and looks at nothing."""
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    stale = warehouse.table
    committable = lake.run(driver, 1, range(10, 20))
    names = [f"{stale.location()}/data/{file[0]}" for file in committable["files"]]
    stale.add_files(names, check_duplicate_files=False)
    assert warehouse.ids == sorted([*range(20), *range(10, 20)])


def test_a_zombie_does_not_bring_back_what_was_compacted(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    """Requirement C6: it read before its successor's commit, and goes on after the files were replaced."""
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    lake.run(zombie, 0, range(10))
    committable = lake.stage(zombie, 1, range(10, 20))
    read_early = reading_of(zombie)
    lake.commit(heir, 1, committable)
    rewrite(warehouse)
    assert not attempt(zombie, read_early, 1, committable)
    assert warehouse.ids == list(range(20))
    lake.commit(zombie, 1, committable)
    assert warehouse.ids == list(range(20))


@pytest.mark.parametrize("rows", [range(10), range(0)], ids=["with rows", "without rows"])
@pytest.mark.parametrize("later", [False, True], ids=["the same epoch", "an earlier epoch"])
def test_of_two_commits_from_the_same_snapshot_one_is_taken(
    lake: Lake[IcebergSink], warehouse: Warehouse, rows: range, later: bool
) -> None:
    """Also of epochs without rows: a late one must not set the marker back."""
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    committable = lake.stage(zombie, 0, rows)
    read_early = reading_of(zombie)
    assert attempt(heir, reading_of(heir), 0, committable)
    if later:
        lake.run(heir, 1, range(10, 20))
    assert not attempt(zombie, read_early, 0, committable)
    lake.commit(zombie, 0, committable)
    assert warehouse.ids == [*rows, *(range(10, 20) if later else ())]
    last = heir.last_commit()
    assert last is not None
    assert last.epoch == (1 if later else 0)


def test_processes_that_commit_at_once_add_the_epoch_once(
    lake: Lake[IcebergSink], warehouse: Warehouse, tmp_path: Path
) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    go = tmp_path / "go"
    with committing_processes(driver, 1, committable, [1, 2, 3, 4], go) as processes:
        go.touch()
        for number in range(100, 103):  # somebody else appends meanwhile
            foreign_append(warehouse, number)
        all_end_well(processes)
    assert warehouse.ids == [*range(20), *range(100, 103)]


def test_other_writers_between_reading_and_committing_do_no_harm(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    reading = reading_of(driver)
    foreign_append(warehouse, 100)
    assert not attempt(driver, reading, 1, committable)
    rewrite(warehouse)
    warehouse.table.delete(EqualTo("id", 3))  # type: ignore[call-arg, arg-type]
    with warehouse.table.transaction() as change:
        change.set_properties({"owner": "somebody"})
    lake.commit(driver, 1, committable)
    assert warehouse.ids == [0, 1, 2, *range(4, 20), 100]


def test_a_change_of_properties_alone_is_a_conflict_that_is_overcome(
    lake: Lake[IcebergSink], warehouse: Warehouse
) -> None:
    driver = lake.driver()
    committable = lake.stage(driver, 0, range(10))
    reading = reading_of(driver)
    with warehouse.table.transaction() as change:
        change.set_properties({"owner": "somebody"})
    attempt(driver, reading, 0, committable)  # taken or not: the branch has not moved
    lake.commit(driver, 0, committable)
    assert warehouse.ids == list(range(10))
    assert warehouse.table.properties["owner"] == "somebody"


def test_the_marker_outlives_its_snapshots(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    driver = lake.driver(term=5)
    committables = [lake.run(driver, epoch, range(10 * epoch, 10 * epoch + 10)) for epoch in range(3)]
    rewrite(warehouse)
    expire_all_but_the_current(warehouse)
    heir = lake.driver(term=6)
    last = heir.last_commit()
    assert last is not None
    assert (last.lineage, last.epoch, last.term) == ("lineage-1", 2, 5)
    for epoch, committable in enumerate(committables):
        lake.commit(heir, epoch, committable)
    lake.run(heir, 3, range(30, 40))
    assert warehouse.ids == list(range(40))


def test_the_marker_outlives_its_properties(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    driver = lake.driver(term=5)
    committable = lake.run(driver, 0, range(10))
    with warehouse.table.transaction() as change:
        change.remove_properties(*(name for name in warehouse.table.properties if name.startswith("onceward/")))
    last = lake.driver(term=6).last_commit()
    assert last is not None
    assert (last.lineage, last.epoch, last.term) == ("lineage-1", 0, 5)
    lake.commit(driver, 0, committable)
    assert warehouse.ids == list(range(10))


def test_another_lineage_is_told_apart(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    """Requirement E8."""
    first, second = lake.driver(), lake.driver(lineage="lineage-2", term=1)
    old = [lake.run(first, epoch, range(10 * epoch, 10 * epoch + 10)) for epoch in range(3)]
    last = second.last_commit()
    assert last is not None
    assert (last.lineage, last.epoch) == ("lineage-1", 2)
    lake.run(second, 1, range(100, 110))
    told = first.last_commit()
    assert told is not None
    assert (told.lineage, told.epoch) == ("lineage-2", 1)
    expire_all_but_the_current(warehouse)
    lake.commit(first, 2, old[2])  # a zombie of the first lineage: its epoch is out, though another one came later
    assert warehouse.ids == [*range(30), *range(100, 110)]


@pytest.mark.parametrize("damage", ["gone", "cut short"])
def test_staged_files_that_are_lost_stop_the_commit(lake: Lake[IcebergSink], warehouse: Warehouse, damage: str) -> None:
    """Requirement B5: never skipped."""
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    victim = warehouse.path(committable["files"][0][0])
    whole = victim.read_bytes()
    victim.unlink() if damage == "gone" else victim.write_bytes(whole[:100])
    with pytest.raises(StagingLost, match="epoch 1 is decided"):
        lake.commit(driver, 1, committable)
    assert warehouse.ids == list(range(10))
    victim.write_bytes(whole)  # from a backup
    lake.commit(driver, 1, committable)
    assert warehouse.ids == list(range(20))


def test_an_abort_deletes_its_own_and_older_tries_only(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    lake.run(zombie, 0, range(10))
    committed = warehouse.files
    lake.stage(zombie, 1, range(90, 100))
    lake.stage(zombie, 1, range(90, 100), attempt=2)
    committable = lake.stage(heir, 1, range(10, 20))
    zombie.abort(EpochContext(epoch=1))
    assert [Path(name).name.split("-")[0] for name in set(warehouse.files) - set(committed)] == ["2", "2"]
    lake.commit(heir, 1, committable)
    heir.abort(EpochContext(epoch=2))
    heir.abort(EpochContext(epoch=1))
    assert len(warehouse.files) == len(committed) + 2
    assert warehouse.ids == list(range(20))


def test_a_paused_driver_learns_that_it_was_replaced_before_it_writes(
    lake: Lake[IcebergSink], warehouse: Warehouse
) -> None:
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    lake.run(heir, 0, range(10))
    before = warehouse.files
    for epoch in (0, 1):
        with pytest.raises(PipelineFenced, match="newer driver"):
            zombie.write(EpochContext(epoch=epoch), lake.frame(range(90, 100)))
    assert warehouse.files == before


def test_a_table_that_vanishes_is_not_made_again(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    warehouse.catalog.drop_table(warehouse.name)
    with pytest.raises(TargetUnusable, match="is gone"):
        driver.write(EpochContext(epoch=1), lake.frame(range(10, 20)))
    assert not warehouse.catalog.table_exists(warehouse.name)


def test_a_rolled_back_table_keeps_its_marker(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    """Who rolls a table back takes rows away for good: a repeated commit does not bring them back."""
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    first = warehouse.table.current_snapshot()
    assert first is not None
    committable = lake.run(driver, 1, range(10, 20))
    warehouse.table.manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert warehouse.ids == list(range(10))
    lake.commit(driver, 1, committable)
    lake.run(driver, 2, range(20, 30))
    assert warehouse.ids == [*range(10), *range(20, 30)]


def test_many_files_are_listed_beside_the_committable(
    lake: Lake[IcebergSink], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "INLINE_BYTES", 100)
    driver = lake.driver()
    committable = lake.stage(driver, 0, range(3000))
    assert set(committable) == {"version", "manifest", "sha256", "facts", "after"}
    lake.commit(lake.driver(term=2), 0, committable)
    assert warehouse.ids == list(range(3000))
    assert not warehouse.path(committable["manifest"]).exists()
    lake.commit(driver, 0, committable)
    assert warehouse.ids == list(range(3000))


def test_metadata_stays_small_over_many_epochs(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    """A table made here merges its manifests and drops old metadata files, as Iceberg does when told so."""
    lake.make = lambda: warehouse.sink(
        properties={"write.metadata.previous-versions-max": "3", "commit.manifest.min-count-to-merge": "4"}
    )
    driver = lake.driver()
    for epoch in range(12):
        lake.run(driver, epoch, range(10 * epoch, 10 * epoch + 10))
    snapshot = warehouse.table.current_snapshot()
    assert snapshot is not None
    assert len(snapshot.manifests(warehouse.table.io)) <= 5
    assert len(list(warehouse.root.glob("lake/ns/events/metadata/*.metadata.json"))) <= 5
    assert warehouse.ids == list(range(120))


def test_a_conflict_leaves_no_manifests_behind(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    reading = reading_of(driver)
    foreign_append(warehouse, 100)
    before = sorted(warehouse.root.glob("lake/ns/events/metadata/*"))
    assert not attempt(driver, reading, 1, committable)
    assert sorted(warehouse.root.glob("lake/ns/events/metadata/*")) == before


@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE])
def test_weaker_guarantees_append_without_a_marker(
    lake: Lake[IcebergSink], warehouse: Warehouse, guarantee: Guarantee
) -> None:
    """Requirement A5: written twice is there twice, and an abort takes nothing back."""
    driver = lake.driver(guarantee=guarantee)
    for _ in range(2):
        lake.run(driver, 0, range(10))
        driver.abort(EpochContext(epoch=0))
    assert warehouse.ids == sorted([*range(10), *range(10)])
    assert driver.last_commit() is None
    assert lake.driver(term=2).last_commit() is None


def test_a_failed_plain_write_leaves_nothing(lake: Lake[IcebergSink], warehouse: Warehouse) -> None:
    driver = lake.driver(guarantee=Guarantee.AT_LEAST_ONCE)
    lake.run(driver, 0, range(10))
    before = warehouse.files
    failing = lake.frame(range(10, 20)).selectExpr("if(id = 17, raise_error('on purpose'), id) as id", "text")
    with pytest.raises(Exception, match="on purpose"):
        driver.write(EpochContext(epoch=1), failing)
    assert warehouse.files == before
    assert warehouse.ids == list(range(10))


def test_the_catalogue_takes_no_stale_commit(warehouse: Warehouse, lake: Lake[IcebergSink]) -> None:
    """What everything above rests on."""
    lake.run(lake.driver(), 0, range(10))
    stale = warehouse.table
    foreign_append(warehouse, 100)
    stale.metadata = stale.metadata.model_copy(
        update={"properties": {**stale.properties, "commit.retry.num-retries": "0"}}
    )
    with pytest.raises(CommitFailedException):
        stale.append(pa.table({"id": [101], "text": ["stale"]}))
    assert warehouse.ids == [*range(10), 100]
