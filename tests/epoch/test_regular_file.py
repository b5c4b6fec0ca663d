"""Only a file is read, whatever somebody has put in its place: no test here may ever wait."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from onceward.epoch import regular_file
from onceward.epoch.regular_file import NoRegularFile
from onceward.epoch.storage import LocalStorage

pytestmark = pytest.mark.timeout(20)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def link_to_a_file(path: Path) -> None:
    (path.parent / "elsewhere").write_bytes(b"secret")
    path.symlink_to(path.parent / "elsewhere")


def link_to_nothing(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def listener(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{folder}/{path.name}")  # a socket's address has 108 characters at most
    os.close(folder)


STRANGE = [pipe, link_to_a_device, link_to_a_file, link_to_nothing, listener]


@pytest.mark.parametrize("strange", STRANGE)
def test_what_is_no_file_is_named_and_not_taken_for_nothing(tmp_path: Path, strange: Callable[[Path], None]) -> None:
    """J5: nothing there would mean that a home has not begun."""
    strange(tmp_path / "pipeline.json")
    storage = LocalStorage(tmp_path)
    with pytest.raises(NoRegularFile, match=r"a link, a pipe or a device, and no file: .*pipeline\.json"):
        storage.read("pipeline.json")
    with pytest.raises(NoRegularFile):
        next(iter(storage.chunks("pipeline.json")))


def test_what_is_not_there_and_what_is_a_folder_are_as_ever(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    storage = LocalStorage(tmp_path)
    assert storage.read("nothing") is None
    for name, error in (("nothing", FileNotFoundError), ("folder", IsADirectoryError)):
        with pytest.raises(error):
            regular_file.opened(tmp_path / name)


def test_a_folder_on_the_way_may_be_a_link(tmp_path: Path) -> None:
    """A home on another disk."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"data")
    (tmp_path / "home").symlink_to(tmp_path / "real")
    assert LocalStorage(tmp_path / "home").read("file") == b"data"


def test_what_is_read_at_once_has_a_bound(tmp_path: Path) -> None:
    """A file may have holes, and be larger than any memory."""
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(NoRegularFile, match=r"has 1,099,511,627,776 bytes"):
        LocalStorage(tmp_path).read("file")
    (tmp_path / "file").write_bytes(b"12345")
    assert regular_file.whole(tmp_path / "file", 5) == b"12345"
    with pytest.raises(NoRegularFile):
        regular_file.whole(tmp_path / "file", 4)


def test_a_pipe_is_not_waited_at_to_be_synced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="Invalid argument"):
        LocalStorage(tmp_path).sync("pipe")
