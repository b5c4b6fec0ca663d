"""What is staged, who may delete it, and when."""

import json
import os
from pathlib import Path

import pytest
from pyarrow import fs

from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.errors import HomeMismatch, SinkUnreachable, StagingLost
from onceward.sinks.parquet.staging import Place, StagedFile, Staging


def staging(root: Path, term: int = 1, lineage: str = "l") -> Staging:
    owner = Owner(pipeline="p", lineage=lineage, term=term, guarantee=Guarantee.EXACTLY_ONCE, sink="s")
    return Staging(Place(fs.LocalFileSystem(), str(root)), owner)


def stage(by: Staging, epoch: int, attempt: int = 1, count: int = 2) -> list[StagedFile]:
    made = []
    for number in range(count):
        name = f"{by.prefix(EpochContext(epoch=epoch, attempt=attempt))}{os.urandom(16).hex()}.parquet"
        path = Path(by.place.at(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (number + 1))
        made.append(StagedFile(name, number + 1, 1, [None]))
    return made


def there(root: Path) -> set[str]:
    return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}


def names(files: list[StagedFile]) -> set[str]:
    return {file.name for file in files}


@pytest.mark.parametrize("count", [0, 2, 1000])
def test_a_committable_names_its_files_and_is_small(tmp_path: Path, count: int) -> None:
    by = staging(tmp_path)
    files = stage(by, 7, count=count)
    committable = json.loads(json.dumps(by.seal(EpochContext(epoch=7), files)))
    assert len(json.dumps(committable)) < 20_000
    heir = staging(tmp_path, term=2)
    assert heir.files_of(7, committable) == files
    heir.tidy(7, committable)
    assert there(tmp_path) == names(files)
    heir.tidy(7, committable)
    assert there(tmp_path) == names(files)


def test_a_file_that_is_gone_at_the_vote_makes_the_epoch_be_redone(tmp_path: Path) -> None:
    by = staging(tmp_path)
    files = stage(by, 0)
    by.remove(files[:1])
    with pytest.raises(SinkUnreachable, match="is gone"):
        by.seal(EpochContext(epoch=0), files)


def test_a_file_that_is_gone_after_the_decision_is_lost(tmp_path: Path) -> None:
    by = staging(tmp_path)
    files = stage(by, 0)
    committable = by.seal(EpochContext(epoch=0), files)
    by.remove(files[1:])
    with pytest.raises(StagingLost, match="epoch 0 is decided"):
        by.files_of(0, committable)


def test_a_committable_as_it_was_first_released_is_read(tmp_path: Path) -> None:
    """It may wait in a ledger while Onceward is upgraded."""
    by = staging(tmp_path)
    name = f"{by.root}/0/1-1-{'0' * 32}.parquet"
    assert name == "onceward-1c5e4846357742e0/0/1-1-00000000000000000000000000000000.parquet"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_bytes(b"four")
    released = {"version": 1, "files": [[name, 4, 3, ["2024-01-01", None], '{"numRecords": 3}']], "facts": {}}
    assert by.files_of(0, released) == [StagedFile(name, 4, 3, ["2024-01-01", None], '{"numRecords": 3}')]


def test_a_committable_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HomeMismatch, match="format 9"):
        staging(tmp_path).files_of(0, {"version": 9, "files": []})


def test_tidying_takes_what_other_tries_left(tmp_path: Path) -> None:
    old, by = staging(tmp_path), staging(tmp_path, term=2)
    stage(old, 3)
    kept = stage(by, 3, attempt=2)
    stage(by, 3, attempt=2)  # a task that Spark ran twice
    other = stage(by, 4)
    by.tidy(3, by.seal(EpochContext(epoch=3, attempt=2), kept))
    assert there(tmp_path) == names(kept) | names(other)


def test_clearing_spares_committed_epochs_newer_terms_other_lineages_and_strangers(tmp_path: Path) -> None:
    zombie, heir, other = staging(tmp_path), staging(tmp_path, term=2), staging(tmp_path, lineage="other")
    committed, newer, later, others = stage(zombie, 5), stage(heir, 7), stage(zombie, 8), stage(other, 7)
    for epoch in (6, 7):
        stage(zombie, epoch)
        stage(zombie, epoch, attempt=2)
    stranger = f"{zombie.folder(7)}/somebody.parquet"
    (tmp_path / stranger).write_text("not ours")
    for _ in range(2):
        zombie.clear(after=5, upto=7)
        assert there(tmp_path) == names([*committed, *newer, *later, *others]) | {stranger}
    heir.clear(after=5, upto=100)
    assert there(tmp_path) == names([*committed, *others]) | {stranger}


def test_clearing_leaves_no_empty_folders(tmp_path: Path) -> None:
    by = staging(tmp_path)
    stage(by, 0)
    by.clear(after=None, upto=0)
    assert list(tmp_path.iterdir()) == []


def test_owners_have_folders_of_their_own(tmp_path: Path) -> None:
    owners = [("a", "b", "c"), ("ab", "", "c"), ("a", "bc", ""), ("a", "b", "d")]
    roots = {
        Staging(
            Place(fs.LocalFileSystem(), str(tmp_path)),
            Owner(pipeline=pipeline, sink=sink, lineage=lineage, term=1, guarantee=Guarantee.EXACTLY_ONCE),
        ).root
        for pipeline, sink, lineage in owners
    }
    assert len(roots) == len(owners)
