"""Making a savepoint beside a pipeline that runs, is restarted, cleans up, or has died."""

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from onceward import crashpoints
from onceward.epoch import query_shape
from onceward.epoch.home import Home
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.sealed import seal
from onceward.epoch.storage import LocalStorage
from onceward.errors import ConfigurationError, HomeMismatch, InvalidName, SavepointUnusable
from onceward.holding import this_process
from onceward.savepoint.creating import create
from onceward.savepoint.keeping import find
from onceward.savepoint.manifest import load
from onceward.savepoint.pins import Note, Pins, unfinished
from onceward.savepoint.verifying import verify
from savepoint.homes import LINEAGE, NOW, HandMade, files_of, now, saved_home
from support.power_cut import watched


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


def meddled(made: HandMade, nth: int, meddle: Callable[[], None]) -> Home:
    home = made.home
    return Home(Meddling(made.path, nth, meddle), home.location, home.root)


def left_in(path: Path) -> list[str]:
    """What is in a home that no pipeline has put there, but for savepoints."""
    hidden = [it.name for folder in ("savepoints", ".") for it in (path / folder).glob(".*")]
    return [*hidden, *(it.name for it in (path / "pins").iterdir())]


def test_it_says_what_it_is_of(tmp_path: Path) -> None:
    """E6."""
    place = saved_home(tmp_path / "home").save(name="before-the-upgrade")
    assert place.location == f"{tmp_path}/home/savepoints/before-the-upgrade"
    found = verify(place)
    assert (found.pipeline, found.lineage, found.guarantee, found.epoch, found.term) == (
        "p",
        LINEAGE,
        "exactly-once",
        9,
        1,
    )
    assert (found.partitions, found.backend, found.created_at) == (2, "rocksdb", NOW)
    assert found.entry.positions == ['{"events":{"0":100}}']
    assert found.entry.sinks["out"].rows == 10
    assert found.shape is not None
    assert found.shape.operators[0].keys == ["value"]
    assert {"checkpoint/notes/sources.json", "checkpoint/notes/query.json"} <= found.files.keys()
    assert found.files.keys() == set(place.walk("")) - {"savepoint.json"}
    assert [it.bytes > 0 for it in found.operators] == [True, True]
    assert left_in(tmp_path / "home") == []


def test_it_needs_nothing_but_itself(tmp_path: Path) -> None:
    """E6: moved elsewhere, with the home gone."""
    place = saved_home(tmp_path / "home").save(to=tmp_path / "elsewhere" / "it")
    (tmp_path / "elsewhere").rename(tmp_path / "moved")
    shutil.rmtree(tmp_path / "home")
    assert verify(place.at(tmp_path / "moved" / "it")).epoch == 9


def test_what_a_driver_leaves_for_people_is_not_in_it(tmp_path: Path) -> None:
    """E6: `activity/` is no data."""
    made = saved_home(tmp_path / "home")
    (made.path / "activity").mkdir()
    (made.path / "activity/000001.json").write_text("{}")
    assert not [name for name in made.save().walk("") if "activity" in name]


def test_it_is_its_owners_alone(tmp_path: Path) -> None:
    """J5: the state in it is somebody's data."""
    place = saved_home(tmp_path / "home").save(to=tmp_path / "shared" / "it")
    assert Path(place.location).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("refusal", [errno.EXDEV, errno.ENOSYS])
def test_where_the_kernel_cannot_copy_bytes_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
) -> None:
    """E6: from one file system to another, for instance."""

    def cannot(*_: object) -> int:
        raise OSError(refusal, "cannot")

    monkeypatch.setattr(os, "copy_file_range", cannot)
    assert verify(saved_home(tmp_path / "home").save()).epoch == 9


def test_without_such_a_call_bytes_are_copied_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E6: macOS has none."""
    monkeypatch.delattr(os, "copy_file_range")
    assert verify(saved_home(tmp_path / "home").save()).epoch == 9


def test_a_file_that_is_cut_while_it_is_copied_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E9."""
    monkeypatch.setattr(os, "copy_file_range", lambda *_: 0)
    made = saved_home(tmp_path / "home")
    with pytest.raises(OSError, match="cut short"):
        made.save()
    assert left_in(made.path) == []


def test_its_name_tells_the_epoch(tmp_path: Path) -> None:
    place = saved_home(tmp_path / "home").save()
    assert place.name == f"epoch-000000000009-{load(place).id[:8]}"


def test_a_lineage_of_its_own_folder_is_saved(tmp_path: Path) -> None:
    """E6, E8: after a restore the newest lineage counts."""
    made = HandMade(tmp_path / "home", folder="lineages/0123").epochs(0, 1).note_shape()
    found = verify(made.save())
    assert (found.epoch, "checkpoint/notes/sources.json" in found.files) == (1, True)


def test_nothing_is_replaced(tmp_path: Path) -> None:
    """E6."""
    made = saved_home(tmp_path / "home")
    made.save(name="one")
    for options in ({"name": "one"}, {"to": tmp_path / "home" / "savepoints" / "one"}, {"to": tmp_path / "home"}):
        with pytest.raises(SavepointUnusable, match="is there already"):
            made.save(**options)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SavepointUnusable, match="is there already"):
        made.save(to=tmp_path / "empty")
    assert left_in(tmp_path / "home") == []


def test_of_two_at_once_under_one_name_one_is_refused(tmp_path: Path) -> None:
    """E6."""
    made = saved_home(tmp_path / "home")

    def meddle() -> None:
        made.save(name="one")

    home = meddled(made, 5, meddle)
    with pytest.raises(SavepointUnusable, match="is there already"):
        create(home, name="one", now=now, sleep=lambda _: None)
    assert verify(find(made.home)[0].place).epoch == 9
    assert left_in(tmp_path / "home") == []


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "it.deleted", "ü"])
def test_names_that_are_none_are_refused(tmp_path: Path, name: str) -> None:
    made = saved_home(tmp_path / "home")
    with pytest.raises(InvalidName, match="savepoint"):
        made.save(name=name)
    if name not in ("", "a/b"):
        with pytest.raises(InvalidName, match="savepoint"):
            made.save(to=tmp_path / name)


def test_a_path_and_a_name_exclude_each_other(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not both"):
        saved_home(tmp_path / "home").save(name="a", to=tmp_path / "b")


def test_a_place_in_the_cloud_is_refused(tmp_path: Path) -> None:
    made = saved_home(tmp_path / "home")
    with pytest.raises(SavepointUnusable, match="local or mounted"):
        made.save(to="s3://bucket/it")
    with pytest.raises(SavepointUnusable, match="HDFS"):
        made.save(to="hdfs://name/it")


def test_a_directory_that_is_no_home_is_told(tmp_path: Path) -> None:
    with pytest.raises(HomeMismatch, match="not the home of a pipeline"):
        create(Home.at(tmp_path), now=now)


def test_a_home_in_memory_is_refused(tmp_path: Path) -> None:
    """E4, E6."""
    made = saved_home(tmp_path / "onceward-memory-1234-abc" / "p")
    with pytest.raises(SavepointUnusable, match="gone with its process"):
        made.save()


@pytest.mark.parametrize("nth", [1, 4, 9, 20])
def test_a_take_over_meanwhile_is_followed(tmp_path: Path, nth: int) -> None:
    """E6: the checkpoint's folder is renamed by each start."""
    made = saved_home(tmp_path / "home")
    wanted = files_of(made.save())
    place = create(meddled(made, nth, made.take_over), now=now, sleep=lambda _: None)
    assert verify(place).epoch == 9
    assert files_of(place) == wanted


@pytest.mark.parametrize("nth", [1, 4, 9, 20])
def test_an_overtaken_driver_that_writes_into_its_old_folder_changes_nothing(tmp_path: Path, nth: int) -> None:
    """E6, A1."""
    made = saved_home(tmp_path / "home")
    wanted = files_of(made.save())

    def meddle() -> None:
        old = made.checkpoint
        made.take_over()
        shutil.copytree(made.checkpoint, old)
        (old / "offsets" / "9").write_text("v1\n{}\n{}")

    place = create(meddled(made, nth, meddle), now=now, sleep=lambda _: None)
    assert verify(place).epoch == 9
    assert files_of(place) == wanted
    assert place.read("checkpoint/offsets/9") == (made.checkpoint / "offsets" / "9").read_bytes()


def test_files_that_spark_clears_meanwhile_are_those_of_a_newer_epoch_then(tmp_path: Path) -> None:
    """E6."""
    made = saved_home(tmp_path / "home")

    def meddle() -> None:
        made.epochs(10)
        made.state(1, "11.zip", stores=("left-keyToNumValues", "right-keyToNumValues"))
        for old in (*made.checkpoint.rglob("10.zip"), *made.checkpoint.rglob("10-a.sst")):
            old.unlink()

    place = create(meddled(made, 3, meddle), now=now, sleep=lambda _: None)
    assert verify(place).epoch == 10
    assert "offsets/8" not in files_of(place)


def test_what_is_pinned_stays_though_spark_clears_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E6: copied in the background, from names of its own."""
    made = saved_home(tmp_path / "home")
    plain = Pins.pin

    def pinned(self: Pins, checkpoint: str, epoch: int) -> str:
        plan = plain(self, checkpoint, epoch)
        made.checkpoint.rename(made.room / "checkpoints" / "000002")
        shutil.rmtree(made.room / "checkpoints" / "000002" / "state")
        made.checkpoint.mkdir()
        return plan

    monkeypatch.setattr(Pins, "pin", pinned)
    monkeypatch.setattr("onceward.savepoint.creating.Checkpoint.newest", _always(made))
    assert verify(made.save()).epoch == 9


def _always(made: HandMade) -> Any:
    from onceward.epoch.checkpoint import Checkpoint

    found = Checkpoint.newest(made.home)
    return lambda _: found


def test_a_checkpoint_that_never_stands_still_ends_in_a_named_error(tmp_path: Path) -> None:
    """E6: bounded tries."""
    made = saved_home(tmp_path / "home")

    class Restarting(LocalStorage):
        def link(self, name: str, to: str) -> bool:
            made.take_over()
            return super().link(name, to)

    told: list[str] = []
    home = Home(Restarting(made.path), made.home.location, made.home.root)
    with pytest.raises(SavepointUnusable, match="in 20 tries"):
        create(home, now=now, sleep=lambda _: None, report=told.append)
    assert len(told) == 20
    assert left_in(tmp_path / "home") == []


def test_all_of_it_outlives_a_power_cut(tmp_path: Path) -> None:
    """E9: every byte and every name is synced before the directory gets its name."""
    made = saved_home(tmp_path / "home")
    with watched(tmp_path) as disk:
        place = made.save(to=tmp_path / "deep" / "er" / "it")
        assert disk.put("/it").synced, "renamed before its files were synced"
        assert {f"deep/er/it/{file}" for file in place.walk("")} <= disk.survivors()


class TestLeftovers:
    """Half of a savepoint, and pins: the next one clears those of the dead."""

    ID = "ab" * 16
    PARTIAL = unfinished(ID)

    def note(self, made: HandMade, path: str = "", **changes: object) -> None:
        holder = msgspec.structs.replace(this_process("p", 0), **changes)
        storage = made.home.storage
        storage.replace(f"pins/{self.ID}.json", seal(Note(id=self.ID, holder=holder, path=path)))
        storage.replace(f"pins/{self.ID}/checkpoint/offsets/1", b"pinned")
        storage.replace(f"savepoints/{self.PARTIAL}/checkpoint/offsets/1", b"half")

    def test_of_a_process_that_is_gone_are_cleared(self, tmp_path: Path) -> None:
        """E6."""
        made, told = saved_home(tmp_path / "home"), list[str]()
        self.note(made, process_start="1", since=NOW, host="h")
        made.save(name="it", report=told.append)
        assert left_in(made.path) == []
        assert len(told) == 1
        assert re.match(rf"clearing what process \d+ on h, since {re.escape(NOW)} .*left of a savepoint", told[0])

    @pytest.mark.parametrize("changes", [{}, {"machine": "another"}, {"machine": "another", "process_start": "1"}])
    def test_of_a_process_that_is_not_provably_gone_are_not_touched(self, tmp_path: Path, changes: Any) -> None:
        """E6: it lives here; or elsewhere, in another container, where nobody can tell whether it is slow or gone."""
        made, told = saved_home(tmp_path / "home"), list[str]()
        self.note(made, **changes)
        made.save(name="it", report=told.append)
        assert sorted(left_in(made.path)) == sorted([self.PARTIAL, self.ID, f"{self.ID}.json"])
        assert [it.place.name for it in find(made.home)] == ["it"]
        assert f"makes a savepoint, too; if it is gone, remove pins/{self.ID} of the home" in told[0]

    @pytest.mark.parametrize("body", [b"{", b"null", b'{"format":99}'])
    def test_of_nobody_knows_whom_are_not_touched(self, tmp_path: Path, body: bytes) -> None:
        """E9: torn, or of a newer release."""
        made = saved_home(tmp_path / "home")
        self.note(made)
        (made.path / "pins" / f"{self.ID}.json").write_bytes(body)
        made.save(name="it")
        assert self.ID in left_in(made.path)

    def test_a_forged_note_has_nothing_else_cleared(self, tmp_path: Path) -> None:
        """A home is data: whatever a note names, only what a savepoint leaves behind may go."""
        made = saved_home(tmp_path / "home")
        precious = tmp_path / "precious"
        precious.mkdir()
        storage = made.home.storage
        gone = msgspec.structs.replace(this_process("p", 0), process_start="1")
        for number, (identity, path) in enumerate([(self.ID, str(tmp_path)), ("../../precious", ""), ("..", "")]):
            storage.replace(f"pins/{number:032x}.json", seal(Note(id=identity, holder=gone, path=path)))
        storage.replace("pins/..json", seal(Note(id=".", holder=gone, path=str(precious))))
        create(made.home, now=now, sleep=lambda _: None)
        assert precious.is_dir()

    def test_at_a_path_elsewhere_are_cleared_too(self, tmp_path: Path) -> None:
        """E6."""
        made = saved_home(tmp_path / "home")
        self.note(made, process_start="1", path=str(tmp_path / "elsewhere"))
        half = tmp_path / "elsewhere" / self.PARTIAL / "checkpoint"
        half.mkdir(parents=True)
        made.save(name="it")
        assert list((tmp_path / "elsewhere").iterdir()) == []

    @pytest.mark.parametrize("lost", ["checkpoint/state/0/1/8.zip", "checkpoint/notes/query.json", ""])
    def test_a_savepoint_whose_pins_were_taken_away_is_none(
        self, tmp_path: Path, lost: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """E6: what was pinned is remembered: a savepoint without its state would be whole by its own manifest."""
        made = saved_home(tmp_path / "home")

        def reach(point: str, *_: object) -> None:
            if point == "savepoint-pinned":
                (pinned,) = [it for it in (made.path / "pins").iterdir() if it.is_dir()]
                shutil.rmtree(pinned / lost) if not lost else (pinned / lost).unlink()

        monkeypatch.setattr(crashpoints, "reach", reach)
        with pytest.raises(
            SavepointUnusable, match=r"has lost .* while the savepoint was being made.*Nothing was saved"
        ):
            made.save(name="it")
        assert find(made.home) == []
        assert left_in(made.path) == []

    def test_a_savepoint_that_was_cleared_before_it_got_its_name_is_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = saved_home(tmp_path / "home")

        def reach(point: str, *_: object) -> None:
            if point == "savepoint-sealed":
                (partial,) = (made.path / "savepoints").iterdir()
                shutil.rmtree(partial)

        monkeypatch.setattr(crashpoints, "reach", reach)
        with pytest.raises(SavepointUnusable, match="is gone: somebody has cleared the unfinished savepoint"):
            made.save(name="it")

    def test_what_the_driver_has_noted_is_that_of_the_pinned_moment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """E6: a start with another query comes between the pins and the copy."""
        made = saved_home(tmp_path / "home")
        was = query_shape.read(made.notes.read(query_shape.FILE))

        def reach(point: str, *_: object) -> None:
            if point == "savepoint-pinned":
                query_shape.write(made.notes, QueryShape(sources=["another"]))

        monkeypatch.setattr(crashpoints, "reach", reach)
        place = made.save(name="it")
        assert load(place).shape == was
        assert query_shape.read(place.read("checkpoint/notes/query.json")) == was

    def test_a_failure_leaves_none(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """E6: a full disk, for instance."""
        made = saved_home(tmp_path / "home")

        def write(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "copy_file_range", write)
        with pytest.raises(OSError, match="No space"):
            made.save()
        assert left_in(made.path) == []
        assert find(made.home) == []


def test_a_home_that_has_lost_what_its_query_is_is_not_saved(tmp_path: Path) -> None:
    """E9: at a restore nobody could tell whether another query fits the state."""
    made = HandMade(tmp_path / "home").epochs(0, 1)
    made.notes.remove(query_shape.FILE)
    with pytest.raises(SavepointUnusable, match=r"has lost notes/query\.json.*Restore the checkpoint from a backup"):
        made.save()
    assert find(made.home) == []
