"""What the file sink leaves if the power goes: nothing that was voted for or committed is lost."""

from pathlib import Path
from typing import Any

import pytest

from onceward.sinks.files.staging import Staging
from support.power_cut import watched

OPTIONS = [{"partition_by": "text"}, {"format": "json"}, {"format": "csv", "compression": "gzip"}]
IDS = ["parquet", "json", "csv"]


def below(root: Path, folder: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("options", OPTIONS, ids=IDS)
def test_what_is_voted_for_outlives_a_power_cut(
    rehearse: Any, tmp_path: Path, staging: Path, options: dict[str, Any]
) -> None:
    """Requirement B2: durable and not visible, before the decision. This is the short way; tasks run the same code."""
    with watched(tmp_path) as disk:
        process = rehearse(**options).start()
        process.prepare(0, range(10))
        (ready,) = staging.glob("ready-*")
        voted = below(tmp_path, ready)
        assert len(voted) >= 2, "files and a manifest"
        assert voted <= disk.survivors()
        assert str((staging / "owner.json").relative_to(tmp_path)) in disk.survivors()
        assert disk.put("owner.json").synced


@pytest.mark.parametrize("options", OPTIONS, ids=IDS)
def test_what_is_committed_outlives_a_power_cut(
    rehearse: Any, tmp_path: Path, target: Path, staging: Path, options: dict[str, Any]
) -> None:
    """Requirement B5: every byte before the rename, the rename before the marker, the marker before commit returns."""
    with watched(tmp_path) as disk:
        process = rehearse(**options).start()
        assert (staging / "committed").is_dir()
        for epoch in range(2):
            process.run(epoch, range(10 * epoch, 10 * epoch + 10))
            (folder,) = target.glob(f"epoch={epoch:012d}-*")
            assert disk.put(folder.name).synced, "published before everything in it was synced"
            marker = disk.put(f"{epoch:012d}-{process.owner.lineage}.json")
            assert marker.synced, "the marker was named before its bytes were synced"
            assert below(tmp_path, folder) <= marker.survivors, "marked before the epoch's name was synced"
            assert disk.lost() == []
            assert below(tmp_path, staging / "committed") <= disk.survivors()


def test_a_commit_that_another_process_began_outlives_a_power_cut(rehearse: Any, tmp_path: Path, target: Path) -> None:
    """Whoever renamed it may have died before it was synced; the marker must not come first."""
    rehearsal = rehearse()
    process = rehearsal.start()
    prepared = process.prepare(0, range(10))
    (ready,) = (target.parent / ".out.onceward").glob("ready-*")
    with watched(tmp_path) as disk:
        ready.rename(target / f"epoch={0:012d}-{process.owner.lineage[:8]}")
        assert disk.lost() != []
        rehearsal.start().commit(prepared)
        assert below(tmp_path, target) <= disk.put(f"{process.owner.lineage}.json").survivors
        assert disk.lost() == []


def test_a_target_far_below_what_is_there_outlives_a_power_cut(rehearse: Any, tmp_path: Path) -> None:
    with watched(tmp_path) as disk:
        rehearse(tmp_path / "far" / "below" / "out").start().run(0, range(10))
        assert disk.lost() == []


def test_a_folder_of_markers_that_somebody_else_made_outlives_a_power_cut(rehearse: Any, tmp_path: Path) -> None:
    """A start that died between making it and syncing it."""
    rehearsal = rehearse()
    with watched(tmp_path) as disk:
        (tmp_path / ".out.onceward" / "committed").mkdir(parents=True)
        rehearsal.start().run(0, range(10))
        assert disk.lost() == []


def test_a_claim_and_what_is_put_outlive_a_power_cut(tmp_path: Path) -> None:
    staging = Staging(tmp_path, 1)
    with watched(tmp_path) as disk:
        assert staging.claim("owner.json", b"mine") == b"mine"
        assert disk.survivors() == {"owner.json"}
        staging.put("committed/1.json", b"marker")
        assert disk.survivors() == {"owner.json", "committed/1.json"}
        assert all(put.synced for put in disk.puts)
