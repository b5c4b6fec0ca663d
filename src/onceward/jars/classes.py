"""Archives of classes, which a JVM maps into memory instead of loading and checking each class (docs/decisions/0010).

The JVM checks that an archive fits and does without one that does not; so nothing depends on them but the time.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from onceward.errors import OncewardError
from onceward.jars.cache import cache_root

FOLDER: Final = "classes"


def archive_of(java: Path, facts: Iterable[object]) -> Path:
    """Where the archive for this Java and these facts about its jars is kept, made or not."""
    whole = [str(java), str(java.stat().st_mtime_ns), *map(str, facts)]
    name = hashlib.sha256("|".join(whole).encode()).hexdigest()[:24]
    return cache_root() / FOLDER / f"{name}.jsa"


def use(archive: Path) -> list[str]:
    """For the JVM; nothing as long as there is no archive."""
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", "-Xlog:cds=off"] if archive.exists() else []


def make_at(archive: Path) -> list[str]:
    """For a JVM that writes what it has loaded there when it ends, and says nothing about it."""
    return [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]


def make(target: Path, jars: Path, whose: str, run: Callable[[Path, Path], str]) -> Path:
    """An archive of what `run` has a JVM load, unless there is one; it gets the file and a folder, and says why not."""
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="onceward-archive-", dir=target.parent) as folder:
        fresh = Path(folder) / "classes.jsa"
        said = run(fresh, Path(folder))
        if not fresh.exists():
            raise OncewardError(f"{whose} classes could not be archived: {said}")
        target.with_suffix(".txt").write_text(str(jars))  # whose classes it holds
        fresh.replace(target)
    tidy_up(target.parent)
    return target


def tidy_up(folder: Path) -> None:
    """An archive whose jars are gone (an environment that was deleted) helps nobody, and is large."""
    for note in folder.glob("*.txt"):
        if not Path(note.read_text()).is_dir():
            note.with_suffix(".jsa").unlink(missing_ok=True)
            note.unlink(missing_ok=True)
