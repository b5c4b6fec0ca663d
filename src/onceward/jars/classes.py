"""Archives of classes, which a JVM maps into memory instead of loading and checking each class (docs/decisions/0010).

The JVM checks that an archive fits and does without one that does not; so nothing depends on them but the time.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

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


def keep(fresh: Path, target: Path, jars: Path) -> None:
    """Give a new archive its name, and note whose classes it holds."""
    target.with_suffix(".txt").write_text(str(jars))
    fresh.replace(target)
    tidy_up(target.parent)


def tidy_up(folder: Path) -> None:
    """An archive whose jars are gone (an environment that was deleted) helps nobody, and is large."""
    for note in folder.glob("*.txt"):
        if not Path(note.read_text()).is_dir():
            note.with_suffix(".jsa").unlink(missing_ok=True)
            note.unlink(missing_ok=True)
