"""Taking a snapshot beside pipelines that run, are restarted, clean up, or have died."""

import hashlib
import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from onceward import crashpoints
from onceward.epoch.home import Home
from onceward.epoch.sealed import seal
from onceward.epoch.storage import LocalStorage
from onceward.errors import InvalidName, SavepointUnusable, SnapshotUnusable
from onceward.holding import this_process
from onceward.savepoint.manifest import load as load_savepoint
from onceward.snapshot import creating
from onceward.snapshot.manifest import OnItsWay, load, savepoint_of
from onceward.snapshot.verifying import verify
from savepoint.homes import now
from snapshot.homes import Joined, id_of, taken, two
from support.clocks import MONOTONIC

THE_CHANNEL = OnItsWay(
    topic="t", topic_id="id-of-t", producer="first", consumer="second", ranges=[(0, 5, 10), (1, 3, 3)]
)


class Meddling(LocalStorage):
    """Somebody does something to the home when a file is pinned for the nth time."""

    def __init__(self, root: Path, nth: int, meddle: Callable[[], None]) -> None:
        super().__init__(root)
        self._left, self._meddle = nth, meddle

    def link(self, name: str, to: str) -> bool:
        self._left -= 1
        if self._left == 0:
            self._meddle()
        return super().link(name, to)


def meddled(made: Joined, nth: int, meddle: Callable[[], None]) -> Joined:
    made.home = Home(Meddling(made.path, nth, meddle), made.home.location, made.home.root)
    return made


def left_in(folder: Path) -> list[str]:
    """What a snapshot or its savepoints have left."""
    pins = [str(it.relative_to(folder)) for it in folder.glob("*/pins/*")]
    return sorted([*pins, *(it.name for it in folder.glob(".*"))])


def test_it_holds_the_newest_consistent_cut_and_what_is_on_its_way(tmp_path: Path) -> None:
    """D5: `second` has read a record that `first` has not noted yet, and is saved an epoch earlier."""
    first, second = two(tmp_path)
    place, snapshot = taken(tmp_path, first, second)
    assert place.location == str(tmp_path / "snapshot")
    assert [(it.pipeline, it.epoch, it.writes) for it in snapshot.members] == [
        ("first", 1, {"t": "id-of-t"}),
        ("second", 1, {"out": "id-of-out"}),
    ]
    assert snapshot.channels == [THE_CHANNEL]
    assert load(place.location)[1] == snapshot
    saved = verify(place, snapshot)
    assert [(it.pipeline, it.epoch) for it in saved.values()] == [("first", 1), ("second", 1)]
    assert left_in(tmp_path) == []


def test_it_needs_nothing_but_itself(tmp_path: Path) -> None:
    """D5: moved elsewhere, with the homes gone."""
    place, _ = taken(tmp_path, *two(tmp_path / "homes"))
    Path(place.location).rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "homes")
    verify(*load(tmp_path / "moved"))


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    """J5: the state in it is somebody's data."""
    place, _ = taken(tmp_path, *two(tmp_path))
    folders = [Path(place.location), *(it for it in Path(place.location).rglob("*") if it.is_dir())]
    assert {it.stat().st_mode & 0o077 for it in folders[:2]} == {0}


def test_a_single_pipeline_may_read_its_own_output(tmp_path: Path) -> None:
    """D5: a cycle of one."""
    own = Joined(tmp_path, "own").reads_topics(t=id_of("t"))
    own.epoch(0, reads={"t": {0: 0}}, writes={"t": {0: (0, 4)}})
    own.epoch(1, reads={"t": {0: 5}}, writes={"t": {0: (5, 9)}})
    _, snapshot = taken(tmp_path, own)
    assert [it.ranges for it in snapshot.channels] == [[(0, 5, 10)]]


class TestWhileThingsChange:
    def test_an_epoch_that_is_cleared_while_it_is_pinned_is_not_taken(self, tmp_path: Path) -> None:
        """D5: the pipelines run on; then there is a newer cut."""
        first, second = two(tmp_path)

        def clear() -> None:
            (first.checkpoint / "offsets/1").unlink()
            first.epoch(2, reads={"events": {0: 30}}, writes={"t": {0: (10, 13)}})

        def back(_: float) -> None:
            first.epoch(3, reads={"events": {0: 40}})

        told: list[str] = []
        _, snapshot = taken(tmp_path, meddled(first, 2, clear), second, sleep=back, report=told.append, patience_s=60.0)
        assert [it.epoch for it in snapshot.members] == [3, 2]
        assert any("not yet: " in it for it in told)
        assert left_in(tmp_path) == []

    def test_a_start_that_takes_the_checkpoint_along_is_no_harm(self, tmp_path: Path) -> None:
        """D5: the folder is renamed between two files that are pinned."""
        first, second = two(tmp_path)
        _, snapshot = taken(tmp_path, meddled(first, 2, first.take_over), second, patience_s=60.0)
        assert [it.epoch for it in snapshot.members] == [1, 1]
        assert left_in(tmp_path) == []

    def test_a_restore_into_a_home_meanwhile_is_noticed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """D5: the epoch has the same number, and is another one."""
        first, second = two(tmp_path)
        choose = creating.choose
        seen: list[str] = []

        def choose_and_restore(homes: list[Home]) -> creating.Chosen:
            chosen = choose(homes)
            if not seen:
                other = Joined(tmp_path / "other", "second", lineage="another").reads_topics(t=id_of("t"))
                for number in range(3):
                    other.epoch(number, reads={"t": {0: 0, 1: 0}}, writes={"out": {0: (50, 51)}})
                shutil.rmtree(second.path)
                other.path.rename(second.path)
            seen.append("chosen")
            return chosen

        monkeypatch.setattr(creating, "choose", choose_and_restore)
        told: list[str] = []
        place, snapshot = taken(tmp_path, first, second, report=told.append, patience_s=60.0)
        assert told == ["not yet: pipeline 'second' has begun a new lineage"]
        assert {it.pipeline: it.lineage for it in snapshot.members}["second"] == "another"
        verify(place, snapshot)

    def test_a_producer_that_notes_its_epoch_late_is_waited_for(self, tmp_path: Path) -> None:
        """D5: it was killed after its commit, and its reader keeps no older epoch."""
        first, second = two(tmp_path)
        for number in (0, 1):
            (second.checkpoint / f"commits/{number}").unlink()
        told: list[str] = []

        def start(_: float) -> None:
            first.epoch(2, reads={"events": {0: 30}}, writes={"t": {0: (10, 13)}})

        _, snapshot = taken(tmp_path, first, second, sleep=start, report=told.append, patience_s=60.0)
        assert [it.epoch for it in snapshot.members] == [2, 2]
        assert len(told) == 1
        assert told[0].startswith("not yet: pipeline 'second' has read t-0 up to 14 in every epoch that can still be")


def test_patience_that_ends_says_who_was_waited_for_and_what_to_do(tmp_path: Path) -> None:
    """D5: nothing is left behind, and a reason is told once."""
    first, second = two(tmp_path)
    for number in (0, 1):
        (second.checkpoint / f"commits/{number}").unlink()
    time, told = itertools.count(MONOTONIC), list[str]()
    with pytest.raises(SnapshotUnusable) as error:
        taken(tmp_path, first, second, patience_s=20.0, clock=lambda: next(time), report=told.append)
    assert "within 20 s: pipeline 'second' has read t-0 up to 14" in str(error.value)
    assert "--patience" in str(error.value)
    assert len(told) == 1
    assert next(time) > MONOTONIC + 20
    assert left_in(tmp_path) == []
    assert not (tmp_path / "snapshot").exists()


def test_a_pipeline_without_an_epoch_is_named(tmp_path: Path) -> None:
    """D5."""
    first, _ = two(tmp_path)
    with pytest.raises(SnapshotUnusable, match="pipeline 'new' has no epoch yet that can be saved"):
        taken(tmp_path, first, Joined(tmp_path, "new"))


class TestItsPlace:
    @pytest.mark.parametrize("what", ["folder", "file", "snapshot"])
    def test_that_is_taken_is_refused_before_anything_is_written(self, tmp_path: Path, what: str) -> None:
        """D5: a snapshot replaces nothing."""
        homes, target = two(tmp_path / "homes"), tmp_path / "snapshot"
        if what == "snapshot":
            taken(tmp_path, *homes)
        else:
            target.mkdir() if what == "folder" else target.write_text("mine")
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SnapshotUnusable, match="is there already; a snapshot replaces nothing"):
            taken(tmp_path, *homes)
        assert sorted(tmp_path.rglob("*")) == before

    def test_that_somebody_takes_meanwhile_stays_theirs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """D5: even in the very last moment."""
        homes, target = two(tmp_path / "homes"), tmp_path / "snapshot"
        move = LocalStorage.move

        def late(self: LocalStorage, folder: str, to: str) -> bool:
            if to == "snapshot":
                (target / "theirs").mkdir(parents=True)
            return move(self, folder, to)

        monkeypatch.setattr(LocalStorage, "move", late)
        with pytest.raises(SnapshotUnusable, match="is there already"):
            taken(tmp_path, *homes)
        assert [it.name for it in target.iterdir()] == ["theirs"]
        assert left_in(tmp_path / "homes") == left_in(tmp_path) == []

    @pytest.mark.parametrize("name", ["it.deleted", ".hidden", "a b"])
    def test_has_a_name_that_says_what_it_is(self, tmp_path: Path, name: str) -> None:
        with pytest.raises(InvalidName):
            taken(tmp_path, *two(tmp_path), to=tmp_path / name)

    def test_is_a_local_one(self, tmp_path: Path) -> None:
        with pytest.raises(SavepointUnusable, match="HDFS"):
            taken(tmp_path, *two(tmp_path), to="hdfs://here/x")


class TestLeftovers:
    """D5: an unfinished snapshot, and who was at work on it: the next one beside it clears those of the dead."""

    ID = "ab" * 16
    PARTIAL, OWNER = f".snapshot-{ID}.partial", f".snapshot-{ID}.owner"

    def leave(self, folder: Path, **changes: object) -> None:
        holder = msgspec.structs.replace(this_process("x", 0), **changes)
        (folder / self.OWNER).write_bytes(seal(holder))
        (folder / self.PARTIAL / "pipelines").mkdir(parents=True)

    def test_of_a_process_that_is_gone_are_cleared(self, tmp_path: Path) -> None:
        self.leave(tmp_path, process_start="1")
        taken(tmp_path, *two(tmp_path))
        assert left_in(tmp_path) == []

    def test_of_a_living_process_are_not_touched(self, tmp_path: Path) -> None:
        self.leave(tmp_path)
        taken(tmp_path, *two(tmp_path))
        assert left_in(tmp_path) == sorted([self.PARTIAL, self.OWNER])

    def test_of_another_machine_are_not_touched(self, tmp_path: Path) -> None:
        """Whether it lives cannot be seen from here."""
        self.leave(tmp_path, machine="another", process_start="1")
        taken(tmp_path, *two(tmp_path))
        assert self.PARTIAL in left_in(tmp_path)

    @pytest.mark.parametrize("body", [b"no json", b"[]", b'{"format":"x"}', b"null", b'{"format":99}', b""])
    def test_of_nobody_knows_whom_are_not_touched(self, tmp_path: Path, body: bytes) -> None:
        """J5: torn, of a newer release, or sealed by somebody who knows how to: nobody is known to be gone."""
        self.leave(tmp_path)
        (tmp_path / self.OWNER).write_bytes(body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n")
        taken(tmp_path, *two(tmp_path))
        assert self.PARTIAL in left_in(tmp_path)

    def test_a_forged_note_has_nothing_else_cleared(self, tmp_path: Path) -> None:
        """J5: whatever it says, what goes is named by the note's own name."""
        homes = two(tmp_path)
        precious = tmp_path / "precious"
        precious.mkdir()
        gone = seal(msgspec.structs.replace(this_process("../precious", 0), process_start="1"))
        for name in ("0" * 32, ".", "precious", "cd" * 16):
            (tmp_path / f".snapshot-{name}.owner").write_bytes(gone)
        (tmp_path / f".snapshot-{'cd' * 16}.partial").symlink_to(precious)
        (precious / "it").write_text("mine")
        taken(tmp_path, *homes)
        assert (precious / "it").read_text() == "mine"
        assert ".snapshot-precious.owner" in left_in(tmp_path)

    def test_a_failure_leaves_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A full disk, for instance."""

        def replace(self: LocalStorage, name: str, data: bytes, *, sync: bool = True) -> None:
            if name.endswith("snapshot.json"):
                raise OSError(28, "No space left on device")
            before(self, name, data, sync=sync)

        before = LocalStorage.replace
        homes = two(tmp_path)
        monkeypatch.setattr(LocalStorage, "replace", replace)
        with pytest.raises(OSError, match="No space"):
            taken(tmp_path, *homes)
        assert left_in(tmp_path) == []
        assert not (tmp_path / "snapshot").exists()


def test_all_epochs_are_pinned_before_the_first_file_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D5: what a pipeline clears meanwhile is not among it."""
    first, second = two(tmp_path)

    def reach(point: str, *_: object) -> None:
        if point == "snapshot-pinned":
            for made in (first, second):
                shutil.rmtree(made.checkpoint)

    monkeypatch.setattr(crashpoints, "reach", reach)
    place, snapshot = taken(tmp_path, first, second)
    verify(place, snapshot)
    assert load_savepoint(savepoint_of(place, "second")).epoch == 1
    assert now() == snapshot.created_at
