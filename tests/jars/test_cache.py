"""The jars in the user's cache are the locked ones, or they are not there."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onceward.errors import JarsUnavailable
from onceward.jars.cache import altered, cache_root, folder_of, jars_of
from onceward.jars.lock import BROKER, CONNECTOR, JarLock

if TYPE_CHECKING:
    from jars.conftest import SlowJava, TinyRepository

FETCH = "import sys, pathlib; from onceward.jars.cache import *; jars_of(JarLock.read(pathlib.Path(sys.argv[1])))"


def silent(_: str) -> None: ...


def eventually(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.02)


def fetcher(tiny: "TinyRepository", java: "SlowJava", stderr: Path) -> subprocess.Popen[bytes]:
    with stderr.open("wb") as file:
        return subprocess.Popen(
            [sys.executable, "-c", FETCH, str(tiny.lock.ivy_file)],
            env={**os.environ, "JAVA_HOME": str(java.home)},
            stderr=file,
        )


def test_jars_are_fetched_once_and_then_found(tiny: "TinyRepository") -> None:
    said: list[str] = []
    first = jars_of(tiny.lock, said.append)
    assert [jar.read_bytes() for jar in first] == [b"the first jar", b"the second jar"]
    assert any("2 of 2 fetched" in line for line in said)
    said.clear()
    assert jars_of(tiny.lock, said.append) == first
    assert said == []
    assert tiny.cached == {tiny.folder.name}


def test_an_altered_jar_is_refused_and_not_kept(tiny: "TinyRepository") -> None:
    (tiny.jars / "two-2.0.jar").write_bytes(b"something else")
    with pytest.raises(JarsUnavailable) as refused:
        jars_of(tiny.lock, silent)
    message = str(refused.value)
    assert "two-2.0.jar" in message
    assert "one-1.0.jar" not in message
    assert tiny.lock.sha256["two-2.0.jar"] in message
    assert hashlib.sha256(b"something else").hexdigest() in message
    assert "ONCEWARD_IVY_SETTINGS" in message
    assert tiny.cached == set()


def test_a_jar_that_cannot_be_found_is_named(tiny: "TinyRepository") -> None:
    (tiny.jars / "one-1.0.jar").unlink()
    with pytest.raises(JarsUnavailable, match=r"fetch one-1\.0\.jar .*ONCEWARD_IVY_SETTINGS"):
        jars_of(tiny.lock, silent)
    assert tiny.cached == set()


def test_settings_that_do_not_exist_are_named(tiny: "TinyRepository", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCEWARD_IVY_SETTINGS", "nowhere.xml")
    with pytest.raises(JarsUnavailable, match=r"ONCEWARD_IVY_SETTINGS names nowhere\.xml"):
        jars_of(tiny.lock, silent)


def test_a_fetcher_killed_in_the_middle_leaves_nothing_that_counts(
    tiny: "TinyRepository", slow_java: "SlowJava", tmp_path: Path
) -> None:
    process = fetcher(tiny, slow_java, tmp_path / "stderr")
    eventually(lambda: bool(slow_java.fetches), "the fetch has begun")
    process.kill()
    process.wait()
    os.kill(slow_java.fetches[0], signal.SIGKILL)
    assert not tiny.folder.exists()
    assert len(tiny.cached) == 1  # the temporary folder of the dead
    jars_of(tiny.lock, silent)
    assert tiny.cached == {tiny.folder.name}


def test_two_processes_at_once_fetch_once(tiny: "TinyRepository", slow_java: "SlowJava", tmp_path: Path) -> None:
    first = fetcher(tiny, slow_java, tmp_path / "first")
    eventually(lambda: len(slow_java.fetches) == 1, "the first fetches")
    second = fetcher(tiny, slow_java, tmp_path / "second")
    eventually(lambda: b"waiting for it" in (tmp_path / "second").read_bytes(), "the second waits")
    slow_java.let_go()
    assert (first.wait(60), second.wait(60)) == (0, 0)
    assert len(slow_java.fetches) == 1
    assert altered(tiny.lock, tiny.folder, by_hash=True) == {}


@pytest.mark.parametrize("damage", [b"", b"the FIRST jar", None], ids=["cut", "flipped", "gone"])
def test_a_damaged_jar_is_noticed_and_fetched_again(tiny: "TinyRepository", damage: bytes | None) -> None:
    jar, intact = jars_of(tiny.lock, silent)
    inode = intact.stat().st_ino
    jar.unlink() if damage is None else jar.write_bytes(damage)
    assert jars_of(tiny.lock, silent)[0].read_bytes() == b"the first jar"
    assert intact.stat().st_ino == inode  # a process may be running from it


def test_a_touched_but_equal_jar_is_hashed_not_fetched(tiny: "TinyRepository", monkeypatch: pytest.MonkeyPatch) -> None:
    jar = jars_of(tiny.lock, silent)[0]
    os.utime(jar, (1, 1))
    monkeypatch.setenv("ONCEWARD_IVY_SETTINGS", "nowhere.xml")
    jars_of(tiny.lock, silent)


def test_a_cache_that_cannot_be_written_names_the_variable(
    tiny: "TinyRepository", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ONCEWARD_CACHE", str(tmp_path / "file"))
    with pytest.raises(JarsUnavailable, match="Set ONCEWARD_CACHE"):
        jars_of(tiny.lock, silent)


def test_the_cache_follows_the_users_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ONCEWARD_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "onceward" / "jars"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == tmp_path / "home" / ".cache" / "onceward" / "jars"


@pytest.mark.parametrize("ivy_file", [CONNECTOR, BROKER], ids=["connector", "broker"])
def test_the_locked_jars_of_this_machine_are_the_locked_ones(ivy_file: Path) -> None:
    lock = JarLock.read(ivy_file)
    jars_of(lock)
    assert altered(lock, folder_of(lock), by_hash=True) == {}


@pytest.mark.parametrize("ivy_file", [CONNECTOR, BROKER], ids=["connector", "broker"])
def test_a_lock_names_each_jar_twice_and_no_address(ivy_file: Path) -> None:
    text = ivy_file.read_text()
    lock = JarLock.read(ivy_file)
    assert text.count("<dependency ") == text.count('transitive="false"') == len(lock.sha256)
    assert "://" not in text
