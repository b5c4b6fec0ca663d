"""Finding, deleting and unpacking savepoints."""

import json
import shutil
from pathlib import Path

import pytest

from onceward import crashpoints
from onceward.epoch.home import Home
from onceward.errors import SavepointDamaged, SavepointUnusable
from onceward.savepoint.keeping import delete, find
from onceward.savepoint.manifest import load
from onceward.savepoint.place import Place
from onceward.savepoint.unpacking import unpack
from onceward.savepoint.verifying import verify
from savepoint.homes import HandMade, saved_home
from support.power_cut import watched


class Killed(BaseException):
    """Nothing of the process runs any more."""


def killed_at(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    def reach(point: str, epoch: int | None = None) -> None:
        if point == wanted:
            raise Killed

    monkeypatch.setattr(crashpoints, "reach", reach)


def test_a_home_has_its_savepoints(tmp_path: Path) -> None:
    """E6: the oldest first; what cannot be read is there too, with the reason."""
    made = HandMade(tmp_path / "home").epochs(0)
    assert find(made.home) == []
    made.save(name="b")
    made.epochs(1).save(name="a")
    (tmp_path / "home/savepoints/strange").mkdir()
    cut = tmp_path / "home/savepoints/a/savepoint.json"
    found = find(made.home)
    assert [(it.place.name, it.savepoint and it.savepoint.epoch) for it in found] == [
        ("a", 1),
        ("b", 0),
        ("strange", None),
    ]
    cut.write_bytes(cut.read_bytes()[:-5])
    problems = {it.place.name: it.problem for it in find(made.home)}
    assert problems["b"] == ""
    assert "savepoint.json is damaged" in problems["a"]
    assert "is no savepoint" in problems["strange"]


def test_deleted_it_is_gone(tmp_path: Path) -> None:
    """E6."""
    made = saved_home(tmp_path / "home")
    place = made.save(name="one")
    made.save(name="two")
    assert delete(place)
    assert [it.place.name for it in find(made.home)] == ["two"]
    assert [it.name for it in (tmp_path / "home/savepoints").iterdir()] == ["two"]
    with pytest.raises(SavepointUnusable, match="there is no savepoint"):
        delete(place)


def test_a_deletion_that_was_interrupted_is_told_and_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E6, E9."""
    made = saved_home(tmp_path / "home")
    place = made.save(name="one")
    with monkeypatch.context() as patch:
        killed_at(patch, "savepoint-deleting")
        with pytest.raises(Killed):
            delete(place)
    (found,) = find(made.home)
    assert (found.place.name, found.savepoint) == ("one.deleted", None)
    assert "onceward savepoint delete" in found.problem
    for read in (load, verify):
        with pytest.raises(SavepointDamaged, match="interrupted"):
            read(place)
        with pytest.raises(SavepointDamaged, match="interrupted"):
            read(found.place)
    assert not delete(place)
    assert find(made.home) == []


def test_what_an_interrupted_deletion_left_can_be_deleted_by_its_own_name(tmp_path: Path) -> None:
    """E6."""
    made = saved_home(tmp_path / "home")
    place = made.save(name="one")
    shutil.copytree(place.location, f"{place.location}.deleted")
    assert not delete(place.half_deleted)
    assert verify(place).epoch == 9
    assert delete(place)
    with pytest.raises(SavepointUnusable, match="there is no savepoint"):
        delete(place.half_deleted)


def test_a_name_may_be_used_again_after_an_interrupted_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E6."""
    made = saved_home(tmp_path / "home")
    with monkeypatch.context() as patch:
        killed_at(patch, "savepoint-deleting")
        with pytest.raises(Killed):
            delete(made.save(name="one"))
    place = made.save(name="one")
    assert verify(place).epoch == 9
    assert delete(place)
    assert find(made.home) == []


def test_only_savepoints_are_deleted(tmp_path: Path) -> None:
    """E6: not a home, not a directory of something else."""
    made = saved_home(tmp_path / "home")
    place = made.save(to=tmp_path / "it")
    (tmp_path / "empty").mkdir()
    (tmp_path / "it" / "my-notes.txt").write_text("keep me")
    for path, told in (("home", "pipeline.json"), ("empty", "it has no savepoint.json"), ("it", "my-notes.txt")):
        with pytest.raises(SavepointUnusable, match=told):
            delete(Place.at(tmp_path / path))
    (tmp_path / "it" / "my-notes.txt").unlink()
    (tmp_path / "it" / "savepoint.json").write_text("damaged")
    assert delete(place)


def test_unpacked_it_is_the_checkpoint_again(tmp_path: Path) -> None:
    """E6: byte for byte, in another home, and for ever."""
    place = saved_home(tmp_path / "home").save(to=tmp_path / "it")
    shutil.rmtree(tmp_path / "home")
    savepoint, home = load(place), Home.at(tmp_path / "other")
    with watched(tmp_path) as disk:
        unpack(place, savepoint, home, "lineages/1/checkpoints/000004")
        target = tmp_path / "other/lineages/1/checkpoints/000004"
        assert not [it for it in disk.lost() if it.startswith("other/lineages/1/checkpoints/000004")]
    found = {str(it.relative_to(target)): it.read_bytes() for it in target.rglob("*") if it.is_file()}
    wanted = {it.removeprefix("checkpoint/"): place.read(it) for it in savepoint.files if it.startswith("checkpoint/")}
    assert found == wanted
    with pytest.raises(SavepointUnusable, match="is there already"):
        unpack(place, savepoint, home, "lineages/1/checkpoints/000004")


def test_unpacked_it_knows_where_it_is(tmp_path: Path) -> None:
    """E6, E1: transformWithState names its schemas by whole paths."""
    made = HandMade(tmp_path / "home").epochs(0, 1).state(0, "2.zip")
    store = {"storeName": "default", "numPartitions": 2}
    store |= {"stateSchemaFilePaths": [f"file:{made.checkpoint}/state/0/_stateSchema/default/0_ab"]}  # type: ignore[dict-item]
    told = {"operatorInfo": {"operatorId": 0, "operatorName": "tws"}, "stateStoreInfo": [store]}
    made.put("state/0/_metadata/v2/0", "v2\n" + json.dumps(told))
    made.put("state/0/_stateSchema/default/0_ab", b"the schema")
    place = made.save(to=tmp_path / "it")
    shutil.rmtree(tmp_path / "home")
    home = Home.at(tmp_path / "other")
    unpack(place, load(place), home, "checkpoints/000001")
    data = (tmp_path / "other/checkpoints/000001/state/0/_metadata/v2/0").read_text().splitlines()[1]
    (path,) = json.loads(data)["stateStoreInfo"][0]["stateSchemaFilePaths"]
    assert Path(path.removeprefix("file://")).read_bytes() == b"the schema"
    file = tmp_path / "it/checkpoint/state/0/_metadata/v2/0"
    file.write_bytes(file.read_bytes().replace(b"tws", b"twx"))
    with pytest.raises(SavepointDamaged, match="v2/0 was altered"):
        unpack(place, load(place), home, "checkpoints/000002")
