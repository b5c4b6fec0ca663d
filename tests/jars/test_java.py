"""Bad input: Java missing or too old gives a clear error."""

import re
from pathlib import Path

import pytest

from onceward.errors import JavaUnusable
from onceward.jars import java_command


def java_home(folder: Path, script: str) -> str:
    (folder / "bin").mkdir()
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(folder)


def test_without_java_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaUnusable, match="Install Java 17 or newer"):
        java_command()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaUnusable, match=f"JAVA_HOME is {re.escape(str(tmp_path))}"):
        java_command()


@pytest.mark.parametrize(("version", "shown"), [("1.8.0_402", "8"), ("11.0.2", "11"), ("16", "16")])
def test_an_old_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, shown: str) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, f"echo 'openjdk version \"{version}\"' >&2"))
    with pytest.raises(JavaUnusable, match=f"is Java {shown}, which is too old"):
        java_command()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_17_and_newer_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, f"echo 'openjdk version \"{version}\"' >&2"))
    assert java_command() == tmp_path / "bin" / "java"


def test_what_does_not_answer_like_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", java_home(tmp_path, "echo no such thing; exit 3"))
    with pytest.raises(JavaUnusable, match="exited with 3 and said: no such thing"):
        java_command()
