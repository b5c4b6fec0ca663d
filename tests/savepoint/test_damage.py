"""Damage of every kind to every kind of file: named, and refused."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from epoch.test_regular_file import STRANGE
from onceward.epoch.home import Home
from onceward.epoch.sealed import seal
from onceward.errors import SavepointDamaged, SavepointUnusable
from onceward.savepoint.manifest import FileFacts, load
from onceward.savepoint.place import Place
from onceward.savepoint.unpacking import unpack
from onceward.savepoint.verifying import verify
from savepoint.homes import saved_home

KINDS = (
    "checkpoint/metadata",
    "checkpoint/offsets/9",
    "checkpoint/offsets/8",
    "checkpoint/commits/9",
    "checkpoint/sources/0/0",
    "checkpoint/state/0/_metadata/metadata",
    "checkpoint/state/0/0/_metadata/schema",
    "checkpoint/state/0/1/8.zip",
    "checkpoint/state/0/1/10.changelog",
    "checkpoint/state/0/0/SSTs/8-a.sst",
    "checkpoint/state/0/0/logs/8-b.log",
    "checkpoint/state/1/1/left-keyToNumValues/10.zip",
    "checkpoint/notes/sources.json",
    "checkpoint/notes/query.json",
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("savepoint")
    saved_home(folder / "home").save(to=folder / "it")
    return folder / "it"


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


def make_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("damage", [flip, cut, empty, lengthen, remove, make_folder])
@pytest.mark.parametrize("name", KINDS)
def test_every_damage_to_every_kind_of_file_is_named(copy: Path, name: str, damage: object) -> None:
    """E9: and a restore refuses it on the way, though nobody has verified it."""
    damage(copy / name)  # type: ignore[operator]
    with pytest.raises(SavepointDamaged, match=rf"it is damaged: {name} (is missing|was altered|has \d+ bytes)"):
        verify(Place.at(copy))
    if name.startswith("checkpoint/"):
        home = Home.at(copy.parent / "home")
        with pytest.raises(SavepointDamaged, match=name.removeprefix("checkpoint/")):
            unpack(Place.at(copy), load(Place.at(copy)), home, "checkpoints/000001")


@pytest.mark.parametrize("strange", STRANGE)
@pytest.mark.parametrize("name", ["checkpoint/offsets/9", "savepoint.json"])
def test_what_is_put_in_the_place_of_a_file_is_named_and_not_read(
    copy: Path, name: str, strange: Callable[[Path], None]
) -> None:
    """J5, E9: a pipe would be waited at for ever; a link may lead to a file of ours with just these bytes."""
    savepoint = load(Place.at(copy))
    (copy / name).unlink()
    strange(copy / name)
    says = rf"{name}:? is a link, a pipe or a device, and no file"
    with pytest.raises(SavepointDamaged, match=says):
        verify(Place.at(copy))
    if name.startswith("checkpoint/"):
        with pytest.raises(SavepointDamaged, match=says):
            unpack(Place.at(copy), savepoint, Home.at(copy.parent / "home"), "checkpoints/000001")


def test_the_list_of_kinds_is_complete(original: Path) -> None:
    """One of each: what differs only in its number is of one kind."""
    assert set(KINDS) <= {str(it.relative_to(original)) for it in original.rglob("*") if it.is_file()}
    folders = {str(Path(name).parent) for name in KINDS}
    suffixes = {Path(name).suffix for name in KINDS}
    assert {it.suffix for it in original.rglob("*") if it.is_file()} <= suffixes
    assert len(folders) > 8


@pytest.mark.parametrize("name", ["more", ".hidden", "checkpoint/offsets/10", "checkpoint/state/0/1/9.zip", "more/x"])
def test_a_file_that_is_not_of_it_is_named(copy: Path, name: str) -> None:
    """E9: one epoch more in a log would be one that is skipped."""
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).write_bytes(b"")
    with pytest.raises(SavepointDamaged, match=f"damaged: {name} is not of it"):
        verify(Place.at(copy))


def test_a_link_to_a_folder_is_a_file_that_is_not_of_it(copy: Path) -> None:
    """E9."""
    (copy / "checkpoint" / "more").symlink_to(copy.parent)
    with pytest.raises(SavepointDamaged, match="checkpoint/more is not of it"):
        verify(Place.at(copy))


def test_all_that_is_bad_is_named_at_once(copy: Path) -> None:
    """E9."""
    flip(copy / "checkpoint/offsets/9")
    remove(copy / "checkpoint/commits/9")
    (copy / "checkpoint/notes/more").write_bytes(b"")
    with pytest.raises(SavepointDamaged) as told:
        verify(Place.at(copy))
    assert all(it in str(told.value) for it in ("offsets/9 was altered", "commits/9 is missing", "more is not of it"))


@pytest.mark.parametrize("damage", [flip, cut, empty, lengthen])
def test_a_damaged_manifest_is_named(copy: Path, damage: object) -> None:
    """E9."""
    damage(copy / "savepoint.json")  # type: ignore[operator]
    for read in (load, verify):
        with pytest.raises(SavepointDamaged, match=r"it/savepoint\.json is damaged"):
            read(Place.at(copy))


def test_a_manifest_that_is_missing_is_told_from_what_is_no_savepoint(copy: Path, tmp_path: Path) -> None:
    """E9."""
    remove(copy / "savepoint.json")
    with pytest.raises(SavepointDamaged, match=r"savepoint\.json is missing"):
        verify(Place.at(copy))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_bytes(b"")
    with pytest.raises(SavepointUnusable, match="is no savepoint"):
        verify(Place.at(tmp_path / "other"))
    with pytest.raises(SavepointUnusable, match="there is no savepoint"):
        verify(Place.at(tmp_path / "nothing"))


@pytest.mark.parametrize(
    "name", ["../x", "checkpoint/../../x", "/etc/x", "checkpoint", "checkpoint//x", "pipeline.json", "checkpoint/./x"]
)
def test_a_manifest_cannot_lead_out_of_its_directory(copy: Path, name: str) -> None:
    """E9, J5: a savepoint may come from anywhere."""
    forge(copy, files={name: FileFacts(size=0, sha256="0" * 64)})
    with pytest.raises(SavepointDamaged, match="names files that no savepoint has"):
        load(Place.at(copy))


@pytest.mark.parametrize("facts", [FileFacts(size=-1, sha256=""), FileFacts(size=1, sha256="x" * 64)])
def test_a_manifest_has_a_checksum_for_every_file(copy: Path, facts: FileFacts) -> None:
    """E9: a file that is missing must not pass for one that is meant to be."""
    forge(copy, files={"checkpoint/metadata": facts})
    with pytest.raises(SavepointDamaged, match="names files that no savepoint has"):
        load(Place.at(copy))


def test_a_manifest_of_a_newer_release_is_told(copy: Path) -> None:
    """E9."""
    forge(copy, format=2)
    with pytest.raises(SavepointUnusable, match="written by a newer Onceward"):
        load(Place.at(copy))


def forge(copy: Path, **changes: object) -> None:
    file = copy / "savepoint.json"
    file.write_bytes(seal(msgspec.structs.replace(load(Place.at(copy)), **changes)))
