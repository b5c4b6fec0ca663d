"""Commits to a Delta table in every order, with others at work on it: each row is there once."""

import os
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from onceward.epoch.contract import EpochContext, Guarantee
from onceward.errors import PipelineFenced, SinkUnreachable, StagingLost, TargetUnusable
from onceward.sinks.delta import DeltaSink
from onceward.sinks.parquet import sink as lake_sink
from onceward.sinks.parquet import staging
from support.lake import Lake, all_end_well, attempt, committing_processes, reading_of
from support.paused import PausedCommits, Seen


def ids(table: Path) -> list[int]:
    found: list[int] = DeltaTable(table).to_pyarrow_table()["id"].to_pylist()
    return sorted(found)


def files(table: Path) -> list[str]:
    """Ours, committed or not."""
    return sorted(str(file.relative_to(table)) for file in table.glob("onceward-*/**/*") if file.is_file())


def foreign_append(table: Path, number: int) -> None:
    write_deltalake(table, pa.table({"id": [number], "text": ["foreign"]}), mode="append")


class TestPaused(PausedCommits):
    @pytest.fixture
    def seen(self, table: Path) -> Seen:
        return lambda: ids(table)


def test_an_epoch_is_one_version_that_says_whose_it_is(lake: Lake[DeltaSink], table: Path) -> None:
    driver = lake.driver(term=3)
    lake.run(driver, 0, range(10))
    before = DeltaTable(table).version()
    lake.run(driver, 1, range(10, 20))
    assert DeltaTable(table).version() == before + 1
    (newest,) = DeltaTable(table).history(1)
    told = {key: value for key, value in newest.items() if key.startswith("onceward.")}
    assert told == {
        "onceward.pipeline": "p",
        "onceward.sink": "s",
        "onceward.lineage": "lineage-1",
        "onceward.epoch": "1",
        "onceward.term": "3",
    }


def test_deltalake_itself_takes_a_blind_replay(lake: Lake[DeltaSink], table: Path) -> None:
    """Why the marker has to be read: an application id that was used is no obstacle to a commit that knows of it."""
    driver = lake.driver()
    committable = lake.stage(driver, 0, range(10))
    assert attempt(driver, reading_of(driver), 0, committable)
    DeltaTable(table).optimize.compact()
    assert attempt(driver, reading_of(driver), 0, committable)  # reads the marker, and does not look at it
    assert ids(table) == sorted([*range(10), *range(10)])


def test_a_zombie_does_not_bring_back_what_was_compacted(lake: Lake[DeltaSink], table: Path) -> None:
    """Requirement C6: it read before its successor's commit, and goes on after a compaction removed the files."""
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    lake.run(zombie, 0, range(10))
    committable = lake.stage(zombie, 1, range(10, 20))
    read_early = reading_of(zombie)
    lake.commit(heir, 1, committable)
    assert DeltaTable(table).optimize.compact()["numFilesRemoved"] >= 2
    assert not attempt(zombie, read_early, 1, committable)
    assert ids(table) == list(range(20))
    lake.commit(zombie, 1, committable)
    assert ids(table) == list(range(20))


@pytest.mark.parametrize("later", [False, True], ids=["the same epoch", "an earlier epoch"])
def test_of_two_commits_from_the_same_version_one_is_taken(lake: Lake[DeltaSink], table: Path, later: bool) -> None:
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    committable = lake.stage(zombie, 0, range(10))
    read_early = reading_of(zombie)
    assert attempt(heir, reading_of(heir), 0, committable)
    if later:
        lake.run(heir, 1, range(10, 20))
    version = DeltaTable(table).version()
    assert not attempt(zombie, read_early, 0, committable)
    lake.commit(zombie, 0, committable)
    assert DeltaTable(table).version() == version
    assert ids(table) == list(range(20 if later else 10))


def test_a_zombies_old_view_is_refused_after_the_log_was_cleaned_up(lake: Lake[DeltaSink], table: Path) -> None:
    DeltaTable.create(
        table,
        Schema.from_arrow(pa.schema([("id", pa.int64()), ("text", pa.string())])),
        configuration={"delta.logRetentionDuration": "interval 0 seconds"},
    )
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    committable = lake.stage(zombie, 0, range(10))
    read_early = reading_of(zombie)
    lake.commit(heir, 0, committable)
    lake.run(heir, 1, range(10, 20))
    DeltaTable(table).create_checkpoint()
    DeltaTable(table).cleanup_metadata()
    assert not (table / "_delta_log" / f"{1:020}.json").exists()
    with pytest.raises(SinkUnreachable):
        attempt(zombie, read_early, 0, committable)
    lake.commit(zombie, 0, committable)
    assert ids(table) == list(range(20))


def test_processes_that_commit_at_once_add_the_epoch_once(lake: Lake[DeltaSink], table: Path, tmp_path: Path) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    go = tmp_path / "go"
    with committing_processes(driver, 1, committable, [1, 2, 3, 4], go) as processes:
        go.touch()
        for number in range(100, 110):  # somebody else appends meanwhile
            foreign_append(table, number)
        all_end_well(processes)
    assert ids(table) == [*range(20), *range(100, 110)]
    assert sum(entry.get("onceward.epoch") == "1" for entry in DeltaTable(table).history()) == 1


def test_other_writers_between_reading_and_committing_do_no_harm(lake: Lake[DeltaSink], table: Path) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    reading = reading_of(driver)
    foreign_append(table, 100)
    assert not attempt(driver, reading, 1, committable)
    DeltaTable(table).optimize.compact()
    DeltaTable(table).alter.set_table_properties({"delta.checkpointInterval": "7"})
    DeltaTable(table).delete("id = 3")
    lake.commit(driver, 1, committable)
    assert ids(table) == [0, 1, 2, *range(4, 20), 100]


def test_a_table_that_never_stands_still_is_reported(
    lake: Lake[DeltaSink], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is not given up: the coordinator asks again."""
    monkeypatch.setattr(lake_sink, "ATTEMPTS", 3)
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    read = driver._table.read  # type: ignore[union-attr]

    def read_and_be_overtaken() -> object:
        reading = read()
        foreign_append(table, 100)
        return reading

    driver._table.read = read_and_be_overtaken  # type: ignore[union-attr,assignment,method-assign]
    with pytest.raises(SinkUnreachable, match="3 times"):
        lake.commit(driver, 1, committable)
    assert ids(table) == [*range(10), 100, 100, 100]
    driver._table.read = read  # type: ignore[union-attr,method-assign]
    lake.commit(driver, 1, committable)
    assert ids(table) == [*range(20), 100, 100, 100]


def test_the_marker_outlives_checkpoints_and_log_clean_up(lake: Lake[DeltaSink], table: Path) -> None:
    DeltaTable.create(
        table,
        Schema.from_arrow(pa.schema([("id", pa.int64()), ("text", pa.string())])),
        configuration={
            "delta.logRetentionDuration": "interval 0 seconds",
            "delta.setTransactionRetentionDuration": "interval 0 seconds",
        },
    )
    driver = lake.driver(term=5)
    committable = [lake.run(driver, epoch, range(10 * epoch, 10 * epoch + 10)) for epoch in range(3)]
    DeltaTable(table).create_checkpoint()
    DeltaTable(table).cleanup_metadata()
    assert len(list((table / "_delta_log").glob("*.json"))) <= 1
    heir = lake.driver(term=6)
    last = heir.last_commit()
    assert last is not None
    assert (last.lineage, last.epoch, last.term) == ("lineage-1", 2, 5)
    lake.commit(heir, 2, committable[2])
    lake.run(heir, 3, range(30, 40))
    assert ids(table) == list(range(40))


def test_commits_go_on_over_many_checkpoints(lake: Lake[DeltaSink], table: Path) -> None:
    DeltaTable.create(
        table,
        Schema.from_arrow(pa.schema([("id", pa.int64()), ("text", pa.string())])),
        configuration={"delta.checkpointInterval": "3"},
    )
    driver = lake.driver()
    for epoch in range(8):
        lake.run(driver, epoch, range(10 * epoch, 10 * epoch + 10))
    assert len(list((table / "_delta_log").glob("*.checkpoint.parquet"))) >= 2
    (table / "_delta_log" / "_last_checkpoint").write_text("")  # as if it were being written
    lake.run(lake.driver(term=2), 8, range(80, 90))
    assert ids(table) == list(range(90))


def test_another_lineage_is_told_apart(lake: Lake[DeltaSink], table: Path) -> None:
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
    lake.commit(first, 2, old[2])  # a zombie of the first lineage: its epoch is out, though another one came later
    assert ids(table) == [*range(30), *range(100, 110)]


def test_two_sinks_of_a_pipeline_may_share_a_table(lake: Lake[DeltaSink], table: Path) -> None:
    one, other = lake.driver(sink="one"), lake.driver(sink="other")
    lake.run(one, 0, range(10))
    assert other.last_commit() is None
    waiting = lake.stage(one, 1, range(20, 30))
    lake.run(other, 0, range(10, 20))
    other.abort(EpochContext(epoch=1))
    lake.commit(one, 1, waiting)
    assert ids(table) == list(range(30))


def test_a_repeated_commit_after_compaction_and_vacuum_is_harmless(lake: Lake[DeltaSink], table: Path) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.run(driver, 1, range(10, 20))
    DeltaTable(table).optimize.compact()
    DeltaTable(table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
    assert files(table) == []
    lake.commit(lake.driver(term=2), 1, committable)
    assert ids(table) == list(range(20))


def test_a_vacuum_with_delta_s_retention_spares_what_is_staged(lake: Lake[DeltaSink], table: Path) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    DeltaTable(table).vacuum(dry_run=False, full=True)
    lake.commit(driver, 1, committable)
    assert ids(table) == list(range(20))


def test_what_a_crash_left_for_ever_is_found_by_delta_s_vacuum(lake: Lake[DeltaSink], table: Path) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committed = files(table)
    lake.stage(driver, 1, range(10, 20))
    left = sorted(set(files(table)) - set(committed))
    assert left
    for name in left:
        os.utime(table / name, (time.time() - 8 * 86400,) * 2)
    assert sorted(DeltaTable(table).vacuum(dry_run=False, full=True)) == left
    assert files(table) == committed


@pytest.mark.parametrize("damage", ["gone", "cut short"])
def test_staged_files_that_are_lost_stop_the_commit(lake: Lake[DeltaSink], table: Path, damage: str) -> None:
    """Requirement B5: never skipped."""
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    committable = lake.stage(driver, 1, range(10, 20))
    victim = table / committable["files"][0][0]
    whole = victim.read_bytes()
    victim.unlink() if damage == "gone" else victim.write_bytes(whole[:100])
    with pytest.raises(StagingLost, match="epoch 1 is decided"):
        lake.commit(driver, 1, committable)
    assert ids(table) == list(range(10))
    victim.write_bytes(whole)  # from a backup
    lake.commit(driver, 1, committable)
    assert ids(table) == list(range(20))


def test_an_abort_deletes_its_own_and_older_tries_only(lake: Lake[DeltaSink], table: Path) -> None:
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    lake.run(zombie, 0, range(10))
    committed = files(table)
    lake.stage(zombie, 1, range(90, 100))
    lake.stage(zombie, 1, range(90, 100), attempt=2)
    lake.stage(zombie, 3, range(90, 100))
    committable = lake.stage(heir, 1, range(10, 20))
    zombie.abort(EpochContext(epoch=3))
    assert [Path(name).name.split("-")[0] for name in set(files(table)) - set(committed)] == ["2", "2"]
    lake.commit(heir, 1, committable)
    heir.abort(EpochContext(epoch=2))
    heir.abort(EpochContext(epoch=1))
    assert len(files(table)) == len(committed) + 2
    assert ids(table) == list(range(20))


def test_a_paused_driver_learns_that_it_was_replaced_before_it_writes(lake: Lake[DeltaSink], table: Path) -> None:
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    lake.run(heir, 0, range(10))
    before = files(table)
    for epoch in (0, 1):
        with pytest.raises(PipelineFenced, match="newer driver"):
            zombie.write(EpochContext(epoch=epoch), lake.frame(range(90, 100)))
    assert files(table) == before


def test_a_zombie_s_unvoted_files_go_with_its_abort(lake: Lake[DeltaSink], table: Path) -> None:
    """Its successor committed the epoch while the zombie's tasks wrote."""
    zombie, heir = lake.driver(term=1), lake.driver(term=2)
    lake.run(zombie, 0, range(10))
    committable = lake.stage(heir, 1, range(10, 20))
    zombie.write(EpochContext(epoch=1), lake.frame(range(90, 100)))
    late = {name: (table / name).read_bytes() for name in files(table) if "/1/1-" in name}
    lake.commit(heir, 1, committable)
    for name, data in late.items():  # as if they had been finished a moment later
        (table / name).write_bytes(data)
    zombie.abort(EpochContext(epoch=1))
    assert [name for name in files(table) if "/1/1-" in name] == []
    assert ids(table) == list(range(20))


def test_a_table_that_vanishes_is_not_made_again(lake: Lake[DeltaSink], table: Path) -> None:
    """A directory that is not mounted looks like one that was never written."""
    driver = lake.driver()
    committable = lake.run(driver, 0, range(10))
    shutil.move(table, table.with_name("elsewhere"))
    with pytest.raises(TargetUnusable, match="is gone"):
        driver.write(EpochContext(epoch=1), lake.frame(range(10, 20)))
    with pytest.raises(TargetUnusable, match="is gone"):
        lake.commit(driver, 0, committable)
    assert not table.exists()
    shutil.move(table.with_name("elsewhere"), table)
    lake.run(driver, 1, range(10, 20))
    assert ids(table) == list(range(20))


def test_a_restored_table_keeps_its_marker(lake: Lake[DeltaSink], table: Path) -> None:
    """Who takes a table back takes rows away for good: a repeated commit does not bring them back."""
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    version = DeltaTable(table).version()
    committable = lake.run(driver, 1, range(10, 20))
    DeltaTable(table).restore(version)
    lake.commit(driver, 1, committable)
    lake.run(driver, 2, range(20, 30))
    assert ids(table) == [*range(10), *range(20, 30)]


def test_many_files_are_listed_beside_the_committable(
    lake: Lake[DeltaSink], table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "INLINE_BYTES", 100)
    driver = lake.driver()
    committable = lake.stage(driver, 0, range(3000))
    assert set(committable) == {"version", "manifest", "sha256", "facts", "after"}
    manifest = table / committable["manifest"]
    whole = manifest.read_bytes()
    manifest.write_bytes(whole.replace(b"1", b"2", 1))
    with pytest.raises(StagingLost, match="damaged"):
        lake.commit(driver, 0, committable)
    manifest.write_bytes(whole)
    lake.commit(lake.driver(term=2), 0, committable)
    assert ids(table) == list(range(3000))
    assert not manifest.exists()
    lake.commit(driver, 0, committable)
    assert ids(table) == list(range(3000))


def test_a_log_entry_of_ours_carries_no_time_that_could_expire_it(lake: Lake[DeltaSink], table: Path) -> None:
    """Delta drops application ids with an old `lastUpdated`, and keeps those without."""
    lake.run(lake.driver(), 0, range(10))
    newest = max((table / "_delta_log").glob("*.json"))
    assert '"txn"' in newest.read_text()
    assert "lastUpdated" not in newest.read_text()


@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE])
def test_weaker_guarantees_append_without_a_marker(lake: Lake[DeltaSink], table: Path, guarantee: Guarantee) -> None:
    """Requirement A5: written twice is there twice, and an abort takes nothing back."""
    driver = lake.driver(guarantee=guarantee)
    for _ in range(2):
        lake.run(driver, 0, range(10))
        driver.abort(EpochContext(epoch=0))
    assert ids(table) == sorted([*range(10), *range(10)])
    assert driver.last_commit() is None
    assert lake.driver(term=2).last_commit() is None
    lake.driver(term=2).abort(EpochContext(epoch=5))
    assert len(ids(table)) == 20


def test_a_failed_plain_write_leaves_nothing(lake: Lake[DeltaSink], table: Path) -> None:
    driver = lake.driver(guarantee=Guarantee.AT_LEAST_ONCE)
    lake.run(driver, 0, range(10))
    before = files(table)
    failing = lake.frame(range(10, 20)).selectExpr("if(id = 17, raise_error('on purpose'), id) as id", "text")
    with pytest.raises(Exception, match="on purpose"):
        driver.write(EpochContext(epoch=1), failing)
    assert files(table) == before
    assert ids(table) == list(range(10))


def test_an_application_id_of_somebody_else_is_none_of_ours(lake: Lake[DeltaSink], table: Path) -> None:
    driver = lake.driver()
    lake.run(driver, 0, range(10))
    write_deltalake(
        table,
        pa.table({"id": [100], "text": ["foreign"]}),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction("another", 7)]),
    )
    lake.run(driver, 1, range(10, 20))
    assert ids(table) == [*range(20), 100]
    assert DeltaTable(table).transaction_version("another") == 7
