"""What the operating system refuses about a home, in words; every command: tests/cli/test_useless_homes.py."""

import errno

import pytest

from onceward.epoch.home_unusable import home_unusable, is_about


def test_what_is_about_a_home_is_what_names_it_or_what_is_in_it_or_above_it() -> None:
    for name, about in (("/a/b", True), ("/a/b/c", True), ("/a", True), ("/a/x", False), ("/b", False)):
        assert is_about(FileNotFoundError(errno.ENOENT, "no", name), "/a/b") is about
        assert is_about(FileNotFoundError(errno.ENOENT, "no", name.encode()), "file:///a/b") is about
    assert not is_about(OSError("no number"), "/a/b")


def test_a_read_only_disk_a_full_one_and_a_broken_one_are_told() -> None:
    for number, text, says in (
        (errno.EROFS, "Read-only file system", "cannot use /a/b/terms: read-only file system.*mounted read-only"),
        (errno.ENOSPC, "No space left on device", "cannot write /a/b/terms: no space left.*make room"),
        (errno.EIO, "Input/output error", "cannot use /a/b/terms: input/output error"),
    ):
        ours = home_unusable(OSError(number, text, "/a/b/terms"), "/a/b")
        assert ours is not None
        with pytest.raises(type(ours), match=says):
            raise ours
    assert home_unusable(OSError(errno.EIO, "Input/output error", "/elsewhere"), "/a/b") is None
    assert home_unusable(OSError(errno.EIO, "Input/output error")) is None
    full = home_unusable(OSError(errno.ENOSPC, "No space left on device"))
    assert "cannot write into the home: " in str(full)
