"""LocalStorage on a real directory: whole files or none, and names that only one process can claim."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onceward.epoch.storage import CHUNK, Below, LocalStorage, Storage
from support.power_cut import watched

CLAIMANT = """
import sys
from pathlib import Path
from onceward.epoch.storage import LocalStorage
storage, me = LocalStorage(Path(sys.argv[1])), sys.argv[2]
sys.stdin.readline()  # all start at once
print(*(n for n in range(100) if storage.claim(f"claims/{n:03d}", f"{me}:{n}".encode())))
"""


def test_a_claim_is_exclusive_among_eight_processes(tmp_path: Path) -> None:
    """Design 2: the term is claimed by one start, however many race for it."""
    command = [sys.executable, "-c", CLAIMANT, str(tmp_path)]
    pipe = subprocess.PIPE
    racers = [subprocess.Popen([*command, str(n)], stdin=pipe, stdout=pipe, text=True) for n in range(8)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("\n")
        racer.stdin.flush()
    won: dict[int, int] = {}
    for number, racer in enumerate(racers):
        said, _ = racer.communicate(timeout=60)
        assert racer.returncode == 0
        for name in said.split():
            assert int(name) not in won, f"{name} was claimed by {won[int(name)]} and {number}"
            won[int(name)] = number
    assert sorted(won) == list(range(100))
    storage = LocalStorage(tmp_path)
    assert all(storage.read(f"claims/{n:03d}") == f"{winner}:{n}".encode() for n, winner in won.items())
    assert not [file for file in (tmp_path / "claims").iterdir() if file.name.startswith(".")]


def test_a_claim_whose_answer_was_lost_is_still_a_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B5: NFS links, loses its own answer, asks again, and says that the name is taken: by us."""
    real = os.link

    def linked_twice(source: Path, target: Path) -> None:
        real(source, target)
        real(source, target)

    storage = LocalStorage(tmp_path)
    assert storage.claim("a/theirs", b"same")
    monkeypatch.setattr(os, "link", linked_twice)
    assert storage.claim("a/ours", b"same")
    assert not storage.claim("a/ours", b"same"), "equal bytes are not the same claim"
    assert not storage.claim("a/theirs", b"same")
    assert sorted(file.name for file in (tmp_path / "a").iterdir()) == ["ours", "theirs"]


def test_what_is_not_there_reads_as_none_and_lists_as_empty(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "not" / "made")
    assert storage.read("a/b") is None
    assert storage.names("a") == []
    storage.remove("a/b")


def test_replace_leaves_one_whole_file_and_no_temporary_one(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.replace("a/x", b"first")
    storage.replace("a/x", b"second", sync=False)
    assert storage.read("a/x") == b"second"
    assert storage.names("a") == ["x"]
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["x"]


def test_a_write_that_a_full_disk_refuses_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B4: it is tried again and again. A disk that is really full: tests/pipeline/test_full_disks.py."""
    storage = LocalStorage(tmp_path)
    storage.replace("x", b"before")

    def refuse(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    for write in (storage.replace, storage.claim):
        with pytest.raises(OSError, match="No space left"):
            write("x", b"after")
    assert [(it.name, it.read_bytes()) for it in tmp_path.iterdir()] == [("x", b"before")]


def test_a_temporary_file_of_a_killed_process_is_not_listed(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    storage.replace("a/x", b"whole")
    (tmp_path / "a" / ".x.0123").write_bytes(b"ha")
    assert storage.names("a") == ["x"]


def test_names_are_sorted(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    for name in ("b", "a", "c"):
        storage.replace(f"f/{name}", b"")
    assert storage.names("f") == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["x", "a/x", "a/b/x"])
def test_a_replaced_file_outlives_a_power_cut(tmp_path: Path, name: str) -> None:
    """Requirement E9: its bytes before its name, and its name, and the folders' names, before the call returns."""
    storage = LocalStorage(tmp_path)
    with watched(tmp_path) as disk:
        storage.replace(name, b"first")
        assert disk.puts[-1].synced, "renamed before its bytes were synced"
        assert disk.survivors() == {name}
        storage.replace(name, b"second")
        assert [put.synced for put in disk.puts] == [True, True]
        assert disk.survivors() == {name}
        assert storage.read(name) == b"second"


def test_a_file_that_need_not_outlive_a_power_cut_is_not_synced(tmp_path: Path) -> None:
    """The lease is renewed every second: a sync each time would cost more than it is worth."""
    with watched(tmp_path) as disk:
        LocalStorage(tmp_path).replace("lease", b"1", sync=False)
        assert disk.lost() == ["lease"]


@pytest.mark.parametrize("name", ["x", "a/x", "a/b/x"])
def test_a_claimed_file_outlives_a_power_cut(tmp_path: Path, name: str) -> None:
    """Requirement E9: who has claimed a name has it for ever."""
    storage = LocalStorage(tmp_path)
    with watched(tmp_path) as disk:
        assert storage.claim(name, b"mine")
        assert disk.puts[-1].synced, "linked before its bytes were synced"
        assert disk.survivors() == {name}
        assert not storage.claim(name, b"theirs")
        assert storage.read(name) == b"mine"
        assert disk.lost() == []


def test_a_file_of_somebody_else_outlives_a_power_cut_once_it_is_synced(tmp_path: Path) -> None:
    """Spark's own log, for instance: whole, and under its name."""
    storage = LocalStorage(tmp_path)
    with watched(tmp_path) as disk:
        (tmp_path / "theirs").write_bytes(b"whole")
        assert disk.lost() == ["theirs"]
        storage.sync("theirs")
        assert disk.lost() == []


def test_a_folder_that_is_not_there_is_not_moved(tmp_path: Path) -> None:
    """Another start was quicker; the caller looks again."""
    storage = LocalStorage(tmp_path)
    assert not storage.move("checkpoints/000001", "checkpoints/000002")
    assert storage.names("checkpoints") == []


@pytest.fixture(params=["itself", "below"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """A storage, and a folder of one: both keep large files."""
    local = LocalStorage(tmp_path)
    return local if request.param == "itself" else Below(local, "deep/er")


def test_a_large_file_is_written_and_read_bit_by_bit(tree: Storage) -> None:
    """E6."""
    data = bytes(range(256)) * (CHUNK // 100)
    tree.write("a/b/x", (data[at : at + 10_000] for at in range(0, len(data), 10_000)))
    chunks = list(tree.chunks("a/b/x"))
    assert b"".join(chunks) == data
    assert max(map(len, chunks)) <= CHUNK < len(data)
    with pytest.raises(FileExistsError):
        tree.write("a/b/x", [])
    with pytest.raises(FileNotFoundError):
        list(tree.chunks("a/b/y"))
    path = tree.path("a/b/x")
    assert path is not None
    assert path.stat().st_size == len(data)


def test_a_second_name_holds_what_the_first_one_loses(tree: Storage) -> None:
    """E6: whether it is removed, replaced, or moved away with its folder."""
    for name in ("a", "b", "f/c"):
        tree.replace(name, name.encode())
        assert tree.link(name, f"pins/{name}")
    tree.remove("a")
    tree.replace("b", b"another")
    assert tree.move("f", "g")
    assert [tree.read(f"pins/{name}") for name in ("a", "b", "f/c")] == [b"a", b"b", b"f/c"]
    assert not tree.link("a", "pins/again")
    with pytest.raises(FileExistsError):
        tree.link("b", "pins/b")


def test_a_walk_sees_everything_below(tree: Storage) -> None:
    """E9: hidden files too, and links, which it does not follow."""
    for name in ("f/x", "f/.hidden/y", "f/deep/er/.z", "g"):
        tree.replace(name, b"")
    folder = tree.path("f")
    assert folder is not None
    (folder / "link").symlink_to(folder.parent)
    assert tree.walk("f") == [".hidden/y", "deep/er/.z", "link", "x"]
    assert "f/x" in tree.walk("")
    assert tree.walk("none") == []
    tree.clear("f")
    tree.clear("f")
    assert tree.walk("") == ["g"]


def test_clearing_a_link_leaves_what_it_leads_to(tree: Storage) -> None:
    """J5: somebody has put it where a folder of ours was."""
    tree.replace("precious/x", b"")
    link, precious = tree.path("link"), tree.path("precious")
    assert link is not None
    assert precious is not None
    link.symlink_to(precious)
    tree.clear("link")
    assert tree.walk("") == ["precious/x"]


def test_two_may_clear_a_folder_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E6: what the other was quicker with is no error."""
    storage, rmtree, calls = LocalStorage(tmp_path), shutil.rmtree, list[Path]()

    def late(path: Path) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise FileNotFoundError
        rmtree(path)

    storage.replace("f/x", b"")
    monkeypatch.setattr(shutil, "rmtree", late)
    storage.clear("f")
    assert (len(calls), storage.walk("")) == (2, [])


def test_a_new_folder_is_its_owners_and_only_one_makes_it(tree: Storage) -> None:
    """E6."""
    tree.make("a/b")
    folder = tree.path("a/b")
    assert folder is not None
    assert folder.stat().st_mode & 0o777 == 0o700
    with pytest.raises(FileExistsError):
        tree.make("a/b")


def test_large_files_outlive_a_power_cut_once_they_are_settled(tmp_path: Path) -> None:
    """E9: bytes at once, names with the folder."""
    storage = LocalStorage(tmp_path / "not" / "made")
    with watched(tmp_path) as disk:
        storage.make("f")
        storage.write("f/a/b/x", [b"1", b"2"])
        assert disk.lost() == ["not/made/f/a/b/x"]
        storage.settle("f")
        assert disk.lost() == []
