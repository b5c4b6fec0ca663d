"""Damage of every kind to every part of a snapshot: named, and refused. What names something else deletes nothing."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from epoch.test_regular_file import STRANGE
from onceward.epoch.ledger import SinkEntry
from onceward.epoch.sealed import seal
from onceward.errors import InvalidName, SnapshotDamaged, SnapshotUnusable
from onceward.savepoint.manifest import load as load_savepoint
from onceward.savepoint.place import Place
from onceward.snapshot.manifest import KIND, Member, OnItsWay, Snapshot, load
from onceward.snapshot.verifying import verify
from snapshot.homes import KAFKA, Joined, id_of, taken, two

KINDS = (
    "pipelines/first/savepoint.json",
    "pipelines/first/checkpoint/metadata",
    "pipelines/first/checkpoint/offsets/0",
    "pipelines/second/checkpoint/offsets/1",
    "pipelines/second/checkpoint/commits/1",
    "pipelines/second/checkpoint/notes/sources.json",
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("snapshots")
    taken(folder, *two(folder / "homes"))
    return folder / "snapshot"


@pytest.fixture
def copy(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "it")
    return tmp_path / "it"


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def lengthen(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")


def remove(file: Path) -> None:
    file.unlink()


def read(path: Path) -> None:
    verify(*load(path))


def forge(copy: Path, **changes: object) -> None:
    """A manifest with a valid checksum of its own: anybody can make one."""
    _, found = load(copy)
    (copy / "snapshot.json").write_bytes(seal(msgspec.structs.replace(found, **changes)))


def channel(copy: Path, **changes: object) -> None:
    _, found = load(copy)
    forge(copy, channels=[msgspec.structs.replace(found.channels[0], **changes)])


@pytest.mark.parametrize("damage", [flip, cut, empty, lengthen, remove])
@pytest.mark.parametrize("name", KINDS)
def test_every_damage_to_every_kind_of_file_is_named(copy: Path, name: str, damage: Callable[[Path], None]) -> None:
    """D5, E9."""
    damage(copy / name)
    with pytest.raises(SnapshotDamaged, match=name.split("/", 2)[2]):
        read(copy)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("name", [*KINDS, "snapshot.json"])
def test_what_is_put_in_the_place_of_a_file_is_named_and_not_read(
    copy: Path, name: str, strange: Callable[[Path], None]
) -> None:
    """J5, D5: a pipe would be waited at for ever; a link may lead to a file of ours with just these bytes."""
    (copy / name).unlink()
    strange(copy / name)
    inside = name.removeprefix("pipelines/first/").removeprefix("pipelines/second/")
    with pytest.raises(SnapshotDamaged, match=f"{inside}:? is a link, a pipe or a device, and no file"):
        read(copy)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("name", ["more", "pipelines/more", "pipelines/first/more", "pipelines/first/checkpoint/more"])
def test_what_is_no_file_and_not_of_it_is_named(copy: Path, name: str, strange: Callable[[Path], None]) -> None:
    """J5, D5."""
    strange(copy / name)
    with pytest.raises(SnapshotDamaged, match=f"{name.removeprefix('pipelines/first/')} is not of it"):
        read(copy)


@pytest.mark.parametrize("damage", [flip, cut, empty, lengthen])
def test_a_damaged_manifest_is_named(copy: Path, damage: Callable[[Path], None]) -> None:
    """D5, E9."""
    damage(copy / "snapshot.json")
    with pytest.raises(SnapshotDamaged, match=r"it/snapshot\.json is damaged"):
        load(copy)


def test_a_manifest_that_is_missing_is_told_from_what_is_no_snapshot(copy: Path, tmp_path: Path) -> None:
    """D5, E9."""
    remove(copy / "snapshot.json")
    with pytest.raises(SnapshotDamaged, match=r"snapshot\.json is missing"):
        load(copy)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_bytes(b"")
    with pytest.raises(SnapshotUnusable, match="other is no snapshot"):
        load(tmp_path / "other")
    with pytest.raises(SnapshotUnusable, match="there is no snapshot"):
        load(tmp_path / "nothing")


def test_a_manifest_of_a_newer_release_or_of_something_else_is_told(copy: Path) -> None:
    """D5, E9."""
    forge(copy, format=2)
    with pytest.raises(SnapshotUnusable, match="written by a newer Onceward"):
        load(copy)
    shutil.copy(copy / "pipelines/first/savepoint.json", copy / "snapshot.json")
    with pytest.raises(SnapshotDamaged, match="or it is of something else"):
        load(copy)


@pytest.mark.parametrize(
    "name",
    ["more", ".hidden", "pipelines/third/x", "pipelines/.savepoint-ab.partial/x", "pipelines/file", "deep/er/x"],
)
def test_a_file_that_is_not_of_it_is_named(copy: Path, name: str) -> None:
    """D5, E9: hidden ones too."""
    (copy / name).parent.mkdir(exist_ok=True, parents=True)
    (copy / name).write_bytes(b"")
    with pytest.raises(SnapshotDamaged, match=f"{name} is not of it"):
        read(copy)


def test_a_pipeline_that_is_not_of_it_is_named_though_it_is_empty(copy: Path) -> None:
    """D5, E9."""
    (copy / "pipelines" / "third").mkdir()
    with pytest.raises(SnapshotDamaged, match="pipelines/third is not of it"):
        read(copy)


def test_savepoints_that_were_swapped_are_named(copy: Path) -> None:
    """D5, E9: each is whole."""
    folder = copy / "pipelines"
    (folder / "first").rename(folder / "other")
    (folder / "second").rename(folder / "first")
    (folder / "other").rename(folder / "second")
    with pytest.raises(SnapshotDamaged) as told:
        read(copy)
    assert all(f"pipelines/{name} is another savepoint" in str(told.value) for name in ("first", "second"))


def test_a_savepoint_of_another_moment_is_named(copy: Path, tmp_path: Path) -> None:
    """D5: the same pipeline, and the same epoch: only its id and its first file's checksum tell."""
    taken(tmp_path, *two(tmp_path / "homes"), to=tmp_path / "another")
    shutil.rmtree(copy / "pipelines/first")
    shutil.copytree(tmp_path / "another/pipelines/first", copy / "pipelines/first")
    with pytest.raises(SnapshotDamaged, match="pipelines/first is another savepoint"):
        read(copy)


def test_a_savepoint_that_was_altered_and_sealed_again_is_named(copy: Path) -> None:
    """D5: its checksum is in the snapshot's first file."""
    file = copy / "pipelines/first/savepoint.json"
    found = load_savepoint(Place.at(copy / "pipelines/first"))
    file.write_bytes(seal(msgspec.structs.replace(found, created_at="another day")))
    with pytest.raises(SnapshotDamaged, match="pipelines/first is another savepoint"):
        read(copy)


@pytest.mark.parametrize("name", ["../x", "a/b", "/x", ".", "..", "", "\x1b[31m", "x" * 300])
def test_no_name_leads_out_of_the_directory(copy: Path, name: str) -> None:
    """J5: a snapshot may come from anywhere."""
    _, found = load(copy)
    forge(copy, members=[msgspec.structs.replace(found.members[0], pipeline=name)], channels=[])
    with pytest.raises(SnapshotDamaged, match="names a pipeline that there cannot be") as told:
        load(copy)
    assert isinstance(told.value.__cause__, InvalidName)


def test_a_manifest_that_contradicts_itself_is_refused(copy: Path) -> None:
    """D5, E9."""
    _, found = load(copy)
    first = found.members[0]
    for members in ([], [first, first], [msgspec.structs.replace(first, sha256="")]):
        forged = msgspec.structs.replace(found, members=members, channels=[])
        (copy / "snapshot.json").write_bytes(seal(forged))
        with pytest.raises(SnapshotDamaged, match="contradicts itself"):
            load(copy)


@pytest.mark.parametrize(
    "changes",
    [
        {"ranges": [(0, 5, 4), (1, 3, 3)]},
        {"ranges": [(0, -1, 10), (1, 3, 3)]},
        {"ranges": [(0, 5, 10), (0, 5, 10), (1, 3, 3)]},
        {"ranges": [(-1, 0, 0), (0, 5, 10), (1, 3, 3)]},
        {"producer": "third"},
        {"producer": "second"},
        {"consumer": "third"},
        {"topic": "another"},
        {"topic_id": "another"},
    ],
)
def test_a_channel_that_cannot_be_is_refused(copy: Path, changes: dict[str, object]) -> None:
    """D5, E9."""
    channel(copy, **changes)
    with pytest.raises(SnapshotDamaged, match="contradicts itself in what was on its way"):
        load(copy)


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ([(0, 4, 10), (1, 3, 3)], "second had read t-0 up to 5, not 4"),
        ([(0, 6, 10), (1, 3, 3)], "second had read t-0 up to 5, not 6"),
        ([(0, 5, 9), (1, 3, 3)], "what is on its way in t-0 ends at 10, not 9"),
        ([(0, 5, 11), (1, 3, 3)], "what is on its way in t-0 ends at 10, not 11"),
        ([(0, 5, 10)], "nothing is said of t-1"),
        ([], "nothing is said of t-0"),
    ],
)
def test_ranges_that_differ_from_what_the_savepoints_say_are_named(
    copy: Path, ranges: list[tuple[int, int, int]], says: str
) -> None:
    """D5: what is too low loses records, what is too high doubles them."""
    channel(copy, ranges=ranges)
    with pytest.raises(SnapshotDamaged, match=says):
        read(copy)


def test_a_channel_that_is_left_out_is_named(copy: Path) -> None:
    """D5: with it all that was on its way."""
    forge(copy, channels=[])
    with pytest.raises(SnapshotDamaged, match="nothing is said of what was on its way from first to second in 't'"):
        read(copy)
    _, found = load(copy)
    forge(copy, members=[msgspec.structs.replace(it, writes={}) for it in found.members])
    with pytest.raises(SnapshotDamaged, match="nothing is said of topic 't', which first writes"):
        read(copy)


def test_a_partition_that_only_the_producer_knows_belongs_to_it(tmp_path: Path) -> None:
    """D5: the reader has not found it yet."""
    first, second = two(tmp_path / "homes")
    first.epoch(2, writes={"t": {2: (0, 4)}})
    place, snapshot = taken(tmp_path, first, second)
    assert snapshot.channels[0].ranges == [(0, 5, 10), (1, 3, 3), (2, 0, 5)]
    channel(Path(place.location), ranges=[(0, 5, 10), (1, 3, 3)])
    with pytest.raises(SnapshotDamaged, match="nothing is said of t-2"):
        read(Path(place.location))


def test_an_epoch_without_a_vote_is_believed_what_the_next_one_said(tmp_path: Path) -> None:
    """D5: killed after its commit; its successor wrote on at 10."""
    first = Joined(tmp_path, "first")
    second = Joined(tmp_path, "second").reads_topics(t=id_of("t")).epoch(0, reads={"t": {0: 5}})
    first.epoch(0, writes={"t": {0: (0, 4)}})
    first.epoch(1, sinks={"out": SinkEntry(kind=KAFKA, rows=4, partitions=[("t", 0, 4, "ff")])})
    first.epoch(2, writes={"t": {0: (10, 14)}}, is_finished=False)
    place, snapshot = taken(tmp_path, first, second)
    assert [it.epoch for it in snapshot.members] == [1, 0]
    assert snapshot.channels[0].ranges == [(0, 5, 10)]
    verify(place, snapshot)


class TestDeleting:
    def test_takes_all_of_it_and_nothing_else(self, copy: Path, original: Path) -> None:
        """D5."""
        KIND.delete(Place.at(copy))
        assert list(copy.parent.iterdir()) == []
        read(original)
        with pytest.raises(SnapshotUnusable, match="there is no snapshot"):
            KIND.delete(Place.at(copy))

    @pytest.mark.parametrize("name", ["notes.txt", ".git/config", "pipelines.py"])
    def test_leaves_what_holds_something_of_others(self, copy: Path, name: str) -> None:
        """Somebody's own files, hidden ones too."""
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text("mine")
        with pytest.raises(SnapshotUnusable, match=f"it holds {name.partition('/')[0]}, which no snapshot has"):
            KIND.delete(Place.at(copy))
        assert (copy / name).exists()

    @pytest.mark.parametrize("made", [(), ("pipelines/mine.py",)])
    def test_leaves_what_is_no_snapshot(self, tmp_path: Path, made: tuple[str, ...]) -> None:
        """A folder called pipelines is nothing that only snapshots have."""
        (tmp_path / "project" / "pipelines").mkdir(parents=True)
        for name in made:
            (tmp_path / "project" / name).write_text("mine")
        with pytest.raises(SnapshotUnusable, match=r"is not deleted: it has no snapshot\.json"):
            KIND.delete(Place.at(tmp_path / "project"))
        assert (tmp_path / "project" / "pipelines").exists()

    def test_leaves_what_only_has_such_a_name(self, tmp_path: Path) -> None:
        """Somebody's own `.deleted`."""
        (tmp_path / "it.deleted").mkdir()
        (tmp_path / "it.deleted" / "mine").write_text("mine")
        for name in ("it", "it.deleted"):
            with pytest.raises(SnapshotUnusable, match="it holds mine, which no snapshot has"):
                KIND.delete(Place.at(tmp_path / name))

    def test_finishes_an_older_one_and_takes_the_new_one_of_that_name_too(self, copy: Path) -> None:
        """D5."""
        shutil.copytree(copy, copy.with_name("it.deleted"))
        KIND.delete(Place.at(copy))
        assert list(copy.parent.iterdir()) == []

    def test_of_what_is_half_deleted_leaves_a_new_one_of_that_name(self, copy: Path) -> None:
        """D5: only what was named goes."""
        shutil.copytree(copy, copy.with_name("it.deleted"))
        KIND.delete(Place.at(copy.with_name("it.deleted")))
        read(copy)


def test_what_is_written_is_read() -> None:
    """E9: by every release; a field more needs a default."""
    assert {it.name for it in msgspec.structs.fields(Snapshot)} == {"format", "id", "created_at", "members", "channels"}
    assert {it.name for it in msgspec.structs.fields(OnItsWay)} == {
        "topic", "topic_id", "producer", "consumer", "ranges",
    }  # fmt: skip
    assert {it.name for it in msgspec.structs.fields(Member) if it.required} == {
        "pipeline", "home", "lineage", "epoch", "savepoint", "sha256",
    }  # fmt: skip
