"""The user's cache of locked jars: complete and verified, or absent; never half-written.

A set is fetched into a temporary folder, every jar is compared with the lock, and only then the whole
folder gets its name. A later start compares sizes and times with a manifest; only a file that differs
is hashed again. That also finds what a power cut left empty, so nothing here needs an fsync.
"""

import contextlib
import fcntl
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from onceward.errors import JarsUnavailable
from onceward.jars import ivy
from onceward.jars.lock import BROKER, CONNECTOR, JarLock, file_sha256

Report = Callable[[str], None]

CACHE_VARIABLE = "ONCEWARD_CACHE"
MANIFEST = "manifest.json"
LOCK_TIMEOUT_S = ivy.FETCH_TIMEOUT_S * ivy.ATTEMPTS + 30  # longer than the holder can take
LOCK_POLL_S = 0.1


def to_stderr(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def connector_jars(report: Report = to_stderr) -> list[Path]:
    """Spark's Kafka connector: what belongs into `spark.jars`."""
    return jars_of(JarLock.read(CONNECTOR), report)


def broker_jars(report: Report = to_stderr) -> list[Path]:
    """Kafka's broker and tools: the class path of the dev broker."""
    return jars_of(JarLock.read(BROKER), report)


def jars_of(lock: JarLock, report: Report = to_stderr) -> list[Path]:
    """The jars of a lock, fetched if any is missing or altered."""
    folder = folder_of(lock)
    if altered(lock, folder):
        with _fetching_alone(lock, folder, report):
            wrong = altered(lock, folder)  # another process may have fetched them while we waited
            if wrong:
                _fetch(lock, folder, wrong, report)
    return [folder / name for name in lock.sha256]


def folder_of(lock: JarLock) -> Path:
    return cache_root() / f"{lock.name}-{lock.digest}"


def cache_root() -> Path:
    """Where jars are kept: ONCEWARD_CACHE, else the user's cache as the XDG rules name it."""
    ours = os.environ.get(CACHE_VARIABLE)
    if ours:
        return Path(ours) / "jars"
    # The XDG rules tell to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    base = xdg if xdg.is_absolute() else Path.home() / ".cache"
    return base / "onceward" / "jars"


def altered(lock: JarLock, folder: Path, *, by_hash: bool = False) -> dict[str, str]:
    """What differs from the lock: file name -> what was found. Cheap unless `by_hash` or something moved."""
    known = {} if by_hash else _read_manifest(folder)
    wrong = {}
    seen: dict[str, list[int]] = {}
    for name, expected in lock.sha256.items():
        jar = folder / name
        try:
            stat = jar.stat()
            seen[name] = [stat.st_size, stat.st_mtime_ns]
            if known.get(name) != seen[name]:
                found = file_sha256(jar)
                if found != expected:
                    wrong[name] = found
        except OSError as error:
            wrong[name] = f"no readable file ({error.strerror})"
    if not wrong and known != seen:
        with contextlib.suppress(OSError):  # a read-only cache is fine, only slower
            _write_manifest(folder, seen)
    return wrong


def _read_manifest(folder: Path) -> dict[str, list[int]]:
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def _write_manifest(folder: Path, seen: dict[str, list[int]]) -> None:
    fresh = folder / f".{MANIFEST}.{os.getpid()}"
    fresh.write_text(json.dumps(seen, indent=1), encoding="ascii")
    fresh.replace(folder / MANIFEST)


@contextlib.contextmanager
def _fetching_alone(lock: JarLock, folder: Path, report: Report) -> Iterator[None]:
    """One fetcher per set of jars. The kernel drops the lock with its holder, also after kill -9."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        file = folder.with_name(f"{folder.name}.lock").open("w")
    except OSError as error:
        raise JarsUnavailable(
            f"The cache {folder.parent} cannot be written ({error}). Set {CACHE_VARIABLE} to a folder of yours."
        ) from error
    with file:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        waited = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise JarsUnavailable(f"Another process has held {file.name} for too long.") from None
            if not waited:
                report(f"{lock.name}: another process is fetching the jars, waiting for it")
                waited = True
            time.sleep(LOCK_POLL_S)
        yield


def _fetch(lock: JarLock, folder: Path, wrong: dict[str, str], report: Report) -> None:
    report(f"{lock.name}: fetching {len(lock.sha256)} jars into {folder}")
    prefix = f".{lock.name}-{lock.digest}-"
    for left_behind in folder.parent.glob(f"{prefix}*"):  # by a fetcher that was killed: we hold its lock now
        shutil.rmtree(left_behind, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        fetched = work / "jars"
        ivy.retrieve(lock, fetched, work=work, report=report)
        _verify(lock, fetched)
        if folder.exists():
            # A repair: a process may be running from this folder, so only what is wrong is replaced.
            for name in wrong:
                (fetched / name).replace(folder / name)
            altered(lock, folder)
        else:
            fetched.chmod(0o755)
            fetched.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    report(f"{lock.name}: {len(lock.sha256)} jars verified")


def _verify(lock: JarLock, fetched: Path) -> None:
    wrong = altered(lock, fetched)
    if wrong:
        details = "; ".join(f"{name}: expected SHA-256 {lock.sha256[name]}, got {got}" for name, got in wrong.items())
        raise JarsUnavailable(
            f"What was fetched is not what the lock names, so nothing was kept. {details}. {ivy.MIRROR_HINT}"
        )
