"""Beyond the contract: markers, archives, late tasks, and what the file sink leaves to readers."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from onceward.epoch.contract import Guarantee
from onceward.epoch.sealed import unseal
from onceward.errors import HomeMismatch, LedgerCorrupt, SinkUnreachable, StagingLost, TargetUnusable
from onceward.sinks.files.encoding import Encoding
from onceward.sinks.files.layout import FORMAT, MANIFEST, Manifest
from onceward.sinks.files.staging import Try
from onceward.sinks.files.writing import WriteFiles
from onceward.sinks.rows import HASH
from onceward.testing.rehearsal import Process


def try_of(process: Process, epoch: int, *, ready: bool = False) -> Try:
    return Try(lineage=process.owner.lineage, epoch=epoch, term=process.owner.term, attempt=1, ready=ready)


def test_a_published_epoch_says_whose_it_is(rehearse: Any, target: Path) -> None:
    process = rehearse().start()
    process.run(12, range(10))
    folder = target / f"epoch=000000000012-{process.owner.lineage[:8]}"
    manifest = unseal((folder / MANIFEST).read_bytes(), Manifest, "it", FORMAT)
    assert (manifest.pipeline, manifest.sink) == (process.owner.pipeline, "kit")
    assert (manifest.lineage, manifest.epoch, manifest.term) == (process.owner.lineage, 12, 1)
    assert (manifest.rows, manifest.files, manifest.attempt) == (10, 1, 1)
    last = process.last_commit()
    assert last is not None
    assert last.outcome is not None
    assert (last.outcome.rows, last.outcome.digest) == (10, manifest.digest)


def test_published_epochs_may_be_archived_or_deleted(rehearse: Any, target: Path, tmp_path: Path) -> None:
    """The marker remembers: what is taken away is not put out again, and the next epoch follows."""
    rehearsal = rehearse()
    process = rehearsal.start()
    first, second = process.run(0, range(10)), process.run(1, range(10, 20))
    (tmp_path / "archive").mkdir()
    for folder in list(target.iterdir()):
        shutil.move(folder, tmp_path / "archive")
    heir = rehearsal.start()
    heir.expect_last_commit(1)
    for prepared in (first, second):
        heir.commit(prepared)
    rehearsal.expect_visible(when="after archiving, and commits that were repeated")
    heir.run(2, range(20, 30))
    rehearsal.expect_visible(range(20, 30), when="after the epoch that follows")


def test_an_epoch_without_rows_makes_no_directory(rehearse: Any, target: Path) -> None:
    rehearsal = rehearse()
    rehearsal.start().run(0, range(0))
    assert list(target.iterdir()) == []
    rehearsal.start().expect_last_commit(0)


def test_one_marker_for_each_lineage_is_kept(rehearse: Any, staging: Path) -> None:
    rehearsal = rehearse()
    process, other, third = rehearsal.start(), rehearsal.start(lineage="f" * 32), rehearsal.start()
    for epoch in range(5):
        process.run(epoch, range(10 * epoch, 10 * epoch + 10))
    other.run(0, range(100, 110))
    names = sorted(marker.name for marker in (staging / "committed").iterdir())
    assert names == [f"000001-000000000004-{rehearsal.lineage}.json", f"000002-000000000000-{'f' * 32}.json"]
    last = third.last_commit()
    assert last is not None
    assert last.lineage == "f" * 32  # the newest lineage counts, whoever asks


def test_a_lost_marker_is_made_up_for_by_what_is_published(rehearse: Any, staging: Path) -> None:
    """A crash between the rename and the marker, or a staging place that was deleted."""
    rehearsal = rehearse()
    process = rehearsal.start()
    process.run(0, range(10))
    process.run(1, range(10, 20))
    shutil.rmtree(staging)
    heir = rehearsal.start()
    heir.expect_last_commit(1)
    with pytest.raises(HomeMismatch, match=f"holds epoch 1 .* under lineage {rehearsal.lineage}, but this home has"):
        rehearsal.start(lineage="e" * 32)


@pytest.mark.parametrize("wrong", [{"lineage": "e" * 32}, {"term": -9}], ids=["another home", "an old copy"])
def test_a_start_that_is_refused_touches_nothing(rehearse: Any, target: Path, staging: Path, wrong: Any) -> None:
    """Requirement E8: a wrong or copied home is told by the marker, and the healthy pipeline goes on."""
    rehearsal = rehearse()
    rehearsal.start()
    process = rehearsal.start()
    process.run(0, range(10))
    context = process.begin(1)
    outcome = process.write(context, range(10, 20))

    def found() -> list[tuple[str, int]]:
        return sorted((str(path), path.stat().st_mtime_ns) for root in (target, staging) for path in root.rglob("*"))

    before = found()
    assert any("/try-" in name for name, _ in before)
    rehearsal.term += wrong.get("term", 0)
    with pytest.raises(HomeMismatch):
        rehearsal.start(lineage=wrong.get("lineage"))
    assert found() == before
    process.publish(process.pre_commit(context, outcome, range(10, 20)))
    rehearsal.expect_visible(range(20), when="after a refused start")


@pytest.mark.parametrize("file", ["committed", "manifest", "owner.json"])
def test_a_damaged_file_of_ours_is_named(rehearse: Any, target: Path, staging: Path, file: str) -> None:
    """Requirement E9."""
    rehearsal = rehearse()
    process = rehearsal.start()
    process.run(0, range(10))
    (published,) = target.iterdir()
    (marker,) = (staging / "committed").iterdir()
    damaged = {"committed": marker, "manifest": published / MANIFEST, "owner.json": staging / "owner.json"}[file]
    damaged.write_bytes(damaged.read_bytes().replace(b"kit-", b"kat-"))
    with pytest.raises(LedgerCorrupt, match=damaged.name):
        rehearsal.start().last_commit()


def test_a_decided_epoch_that_is_nowhere_stops_the_pipeline(rehearse: Any, staging: Path) -> None:
    """Requirement B5."""
    rehearsal = rehearse()
    process = rehearsal.start()
    prepared = process.prepare(3, range(10))
    shutil.rmtree(staging / try_of(process, 3, ready=True).name)
    with pytest.raises(StagingLost, match=r"epoch 3 is decided.*Restore"):
        process.commit(prepared)


def test_a_target_that_is_away_for_a_while_only_delays_the_commit(rehearse: Any, target: Path) -> None:
    rehearsal = rehearse()
    process = rehearsal.start()
    process.run(0, range(10))
    prepared = process.prepare(1, range(10, 20))
    target.rename(target.with_name("unmounted"))
    with pytest.raises(SinkUnreachable, match="cannot publish an epoch"):
        process.commit(prepared)
    target.with_name("unmounted").rename(target)
    process.commit(prepared)
    rehearsal.expect_visible(range(20), when="after the target came back")


def test_a_strangers_directory_in_the_epochs_place_is_never_taken_for_it(rehearse: Any, target: Path) -> None:
    rehearsal = rehearse()
    process = rehearsal.start()
    strange = target / f"epoch=000000000001-{rehearsal.lineage[:8]}"
    strange.mkdir()
    (strange / "notes.txt").touch()
    context = process.begin(1)
    outcome = process.write(context, range(10))
    with pytest.raises(TargetUnusable, match="is there already"):
        process.pre_commit(context, outcome, range(10))
    process.abort(1)
    strange.rename(target / "_aside")
    prepared = process.prepare(1, range(10), attempt=2)
    (target / "_aside").rename(strange)
    with pytest.raises(TargetUnusable, match="Move it away; the commit then goes on"):
        process.commit(prepared)
    strange.rename(target / "_aside")
    process.commit(prepared)
    rehearsal.expect_visible(range(10), when="after the directory was moved away")


def test_a_vote_of_another_release_is_not_guessed_at(rehearse: Any) -> None:
    process = rehearse().start()
    prepared = process.prepare(0, range(10))
    with pytest.raises(HomeMismatch, match="version 2"):
        process.sink.commit(prepared.context, {**prepared.committable, "version": 2})


def test_only_what_successful_tasks_report_is_published(rehearse: Any, staging: Path) -> None:
    """A task that failed, or was given up, leaves files in the try; none of them is taken."""
    rehearsal = rehearse()
    process = rehearsal.start()
    context = process.begin(0, input_rows=None)
    outcome = process.write(context, range(10))
    trying = staging / try_of(process, 0).name
    (finished, *_) = trying.rglob("part-*.parquet")
    (trying / "task-00000-late").mkdir()
    shutil.copy(finished, trying / "task-00000-late" / "part-late.parquet")
    shutil.copy(finished, finished.with_name("part-late.parquet"))
    process.publish(process.pre_commit(context, outcome, range(10)))
    rehearsal.expect_visible(range(10), when="with files of a late task in the try")
    rehearsal.expect_nothing_staged("with files of a late task in the try")


def test_a_late_task_cannot_bring_back_what_was_swept_away(rehearse: Any, staging: Path) -> None:
    """It has an open file and the next partition to come: the one goes with its directory, the other has no place."""
    rehearsal = rehearse()
    process = rehearsal.start()
    process.begin(0)
    trying = staging / try_of(process, 0).name
    work = WriteFiles(
        folder=str(trying),
        epoch=0,
        encoding=Encoding(format="parquet", compression="none"),
        partition_by=("bucket",),
    )

    def batch(bucket: str) -> pa.RecordBatch:
        columns = {"id": [1], "__onceward_partition_0": [bucket], HASH: pa.array([1], pa.int64())}
        return pa.RecordBatch.from_pydict(columns)

    def batches() -> Any:
        yield batch("first")
        rehearsal.start().abort(0)
        yield batch("second")

    with pytest.raises(SinkUnreachable, match="No such file or directory"):
        work(batches())
    rehearsal.expect_nothing_staged("after a late task")
    with pytest.raises(TargetUnusable, match="is not there where this task runs"):
        work(iter([batch("third")]))
    rehearsal.expect_nothing_staged("after a later one")


def test_files_that_the_driver_does_not_find_are_not_voted_for(rehearse: Any, staging: Path) -> None:
    """Executors on other machines, and a path that is not shared."""
    process = rehearse().start()
    context = process.begin(0, input_rows=None)
    outcome = process.write(context, range(10))
    for part in staging.rglob("part-*"):
        part.write_bytes(b"cut short")
    with pytest.raises(TargetUnusable, match=r"does not find it so.*share"):
        process.pre_commit(context, outcome, range(10))


def test_a_start_keeps_what_another_lineage_has_pre_committed(rehearse: Any, staging: Path) -> None:
    rehearsal = rehearse()
    process = rehearsal.start()
    prepared = process.prepare(0, range(10))
    process.begin(1)
    other = rehearsal.start(lineage="d" * 32)
    other.abort(5)
    assert [entry.name for entry in staging.glob("*-*")] == [try_of(process, 0, ready=True).name]
    process.commit(prepared)
    rehearsal.expect_visible(range(10), when="after a commit by its own lineage")


@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.AT_MOST_ONCE])
@pytest.mark.parametrize("input_rows", [10, None], ids=["short way", "long way"])
def test_weaker_guarantees_publish_each_file_as_it_is_finished(
    rehearse: Any, staging: Path, target: Path, guarantee: Guarantee, input_rows: int | None
) -> None:
    """Requirement A5: visible before the commit, and twice after a redone epoch."""
    rehearsal = rehearse(partition_by="bucket")
    process = rehearsal.start(guarantee=guarantee)
    frame = rehearsal.frame(range(20)).selectExpr("*", "id % 2 as bucket")
    process.write(process.begin(0, input_rows=input_rows), frame)
    rehearsal.expect_visible(range(20), when="before the commit")
    heir = rehearsal.start(guarantee=guarantee)
    context = heir.begin(0, input_rows=input_rows)
    heir.publish(heir.pre_commit(context, heir.write(context, frame), ()))
    assert sorted(rehearsal.under_test.visible()) == sorted([*range(20), *range(20)])
    rehearsal.expect_nothing_staged("under a weaker guarantee")
    assert [entry.name for entry in staging.iterdir()] == ["owner.json"]
    (folder,) = target.iterdir()
    assert folder.name.startswith("epoch=000000000000-")


def test_the_committable_stays_small_however_many_files(spark: SparkSession, rehearse: Any) -> None:
    rehearsal = rehearse(partition_by="bucket")
    process = rehearsal.start()
    context = process.begin(0, input_rows=None)
    frame = rehearsal.frame(range(600)).selectExpr("*", "id % 300 as bucket")
    prepared = process.pre_commit(context, process.write(context, frame), range(600))
    assert len(prepared.text) < 300
    assert json.loads(prepared.text)["files"] == 600
