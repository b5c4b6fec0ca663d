"""This machine: Java, the locked jars, room on the disks."""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from onceward.doctor.finding import Finding, note, ok, risk
from onceward.errors import JavaUnusable
from onceward.jars import java_command
from onceward.jars.cache import altered, cache_root, folder_of
from onceward.jars.lock import BROKER, CONNECTOR, JarLock

LITTLE: Final = 2 << 30  # Spark's state, shuffles and logs come to this sooner than one thinks
NONE: Final = 200 << 20


def examine() -> Iterator[Finding]:
    """What every pipeline needs, whatever it does."""
    try:
        yield ok("Java", f"{java_command()}, 17 or newer")
    except JavaUnusable as error:
        yield risk("Java", str(error), "install a JDK 17, or set JAVA_HOME")
    yield jars(JarLock.read(CONNECTOR), needed=True)
    yield jars(JarLock.read(BROKER), needed=False)


def jars(lock: JarLock, *, needed: bool) -> Finding:
    """The locked jars are in the cache, every byte as it was locked."""
    about, folder = f"jars: {lock.name}", folder_of(lock)
    wrong = altered(lock, folder, by_hash=True)
    if not wrong:
        return ok(about, f"{len(lock.sha256)} verified in {folder.parent}")
    says, fix = f"{len(wrong)} of {len(lock.sha256)} are missing or altered in {folder}", "run: onceward jars fetch"
    return risk(about, says, fix) if needed else note(about, f"{says} (only dev brokers need them)", fix)


def disks(places: Iterable[Path]) -> Iterator[Finding]:
    """Room where homes, caches and Spark's own files are; each disk once."""
    seen: set[int] = set()
    for place in (cache_root(), *places):
        there = next((it for it in (place, *place.parents) if it.exists()), None)
        if there is None or there.stat().st_dev in seen:
            continue
        seen.add(there.stat().st_dev)
        yield room(there, shutil.disk_usage(there).free)


def room(place: Path, free: int) -> Finding:
    """How much of a disk is free."""
    about, says = f"disk of {place}", f"{free / (1 << 30):.1f} GB free"
    if free < NONE:
        return risk(about, says, "make room: a full disk stops the pipeline (nothing is lost)")
    return note(about, says, "make room before it is full") if free < LITTLE else ok(about, says)
