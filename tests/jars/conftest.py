"""A tiny repository of jars on disk, so that no fault test needs a network."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from onceward.jars.cache import folder_of
from onceward.jars.lock import JarLock

SETTINGS = """<ivysettings><settings defaultResolver="disk"/><resolvers><filesystem name="disk">
<artifact pattern="{repository}/[organisation]/[artifact]-[revision].[ext]"/>
</filesystem></resolvers></ivysettings>"""

IVY = """<ivy-module version="2.0"><info organisation="onceward" module="tiny"/>
<configurations><conf name="default"/></configurations><dependencies defaultconf="default->default">
<dependency org="org.tiny" name="one" rev="1.0" transitive="false"/>
<dependency org="org.tiny" name="two" rev="2.0" transitive="false"/>
</dependencies></ivy-module>"""

JARS = {"one-1.0.jar": b"the first jar", "two-2.0.jar": b"the second jar"}


@dataclass(frozen=True)
class TinyRepository:
    lock: JarLock
    jars: Path  # where Ivy finds them

    @property
    def folder(self) -> Path:
        return folder_of(self.lock)

    @property
    def cached(self) -> set[str]:
        """Everything in the cache but lock files."""
        cache = self.folder.parent
        return {it.name for it in cache.iterdir() if it.suffix != ".lock"} if cache.exists() else set()


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TinyRepository:
    jars = tmp_path / "repository" / "org.tiny"
    jars.mkdir(parents=True)
    for name, content in JARS.items():
        (jars / name).write_bytes(content)
    settings = tmp_path / "settings.xml"
    settings.write_text(SETTINGS.format(repository=jars.parent))
    ivy_file = tmp_path / "tiny.xml"
    ivy_file.write_text(IVY)
    sums = (f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in JARS.items())
    ivy_file.with_suffix(".sha256").write_text("".join(sums))
    monkeypatch.setenv("ONCEWARD_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("ONCEWARD_CACHE", str(tmp_path / "cache"))
    return TinyRepository(JarLock.read(ivy_file), jars)


@dataclass(frozen=True)
class SlowJava:
    """A `java` that notes each fetch, waits for leave, then goes on as the real one."""

    home: Path

    @property
    def fetches(self) -> list[int]:
        notes = self.home / "fetches"
        return [int(pid) for pid in notes.read_text().split()] if notes.exists() else []

    def let_go(self) -> None:
        (self.home / "go").touch()


@pytest.fixture
def slow_java(tmp_path: Path) -> SlowJava:
    home = tmp_path / "slow-java"
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"""#!/bin/sh
if [ "$1" != -version ]; then
  echo $$ >> {home}/fetches
  while [ ! -e {home}/go ]; do sleep 0.05; done
fi
exec {shutil.which("java")} "$@"
""")
    java.chmod(0o755)
    return SlowJava(home)
