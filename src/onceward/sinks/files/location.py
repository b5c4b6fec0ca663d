"""Where the file sink may write: a directory of a file system that renames a directory in one step."""

import os
import re
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from onceward.errors import TargetUnusable
from onceward.sinks.files.failures import explained
from onceward.sinks.files.layout import escape
from onceward.sinks.files.staging import TRASH, sync_directory

_SCHEME: Final = re.compile(r"(?P<scheme>[a-zA-Z][a-zA-Z0-9+.-]+):")
_FILE_URI: Final = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>/.*)", re.IGNORECASE)
_HADOOP: Final = frozenset({"hdfs", "webhdfs", "viewfs"})
_PROBE: Final = ".onceward-probe-"
_HIDDEN: Final = (".", "_")  # readers pass over names that begin so


def parse(given: str | Path, option: str) -> Path:
    """A local or mounted path, absolute and without detours; other places are refused with the reason."""
    text = str(given)
    if uri := _FILE_URI.fullmatch(text):
        if (uri["host"] or "localhost") != "localhost":
            raise TargetUnusable(f"{option}={text!r} names the machine {uri['host']!r}: mount it, give the local path")
        text = unquote(uri["path"])
    elif scheme := _SCHEME.match(text):
        raise _refused(option, text, scheme["scheme"].lower())
    if not text:
        raise TargetUnusable(f"{option} is empty: give the file sink a directory")
    return Path(text).expanduser().resolve()


def staging_for(target: Path, given: str | Path | None) -> Path:
    """Beside the target by default, so that nobody who lists the target, however deep, sees a part of an epoch."""
    if not target.name:
        raise TargetUnusable(f"path={str(target)!r} is the root of the file system: name a directory in it")
    if given is None:
        return target.parent / f".{target.name}.onceward"
    staging = parse(given, "staging")
    if staging == target or target.is_relative_to(staging):
        raise TargetUnusable(f"staging={str(staging)!r} holds the target {target}: name a place beside it")
    if staging.is_relative_to(target) and not staging.relative_to(target).parts[0].startswith(_HIDDEN):
        raise TargetUnusable(
            f"staging={str(staging)!r} is inside the target, where readers would see it: name a place beside it, or "
            f"one that readers pass over, such as {target / '.onceward'}"
        )
    return staging


def open_both(target: Path, staging: Path) -> None:
    """Make the directories, and prove that one can be moved from the one into the other."""
    for option, place in (("path", target), ("staging", staging)):
        if place.exists() and not place.is_dir():
            raise TargetUnusable(f"{option}={str(place)!r} is a file, not a directory: name a directory for the sink")
        with explained("make the directory", place):
            missing = [each for each in place.parents if not each.exists()]
            place.mkdir(parents=True, exist_ok=True)
            for made in (place, *missing):
                sync_directory(made.parent)
    _probe(target, staging)


def _probe(target: Path, staging: Path) -> None:
    """Asking for device numbers is not enough: a bind mount has the same one, and refuses. Nor is asking for rights."""
    probe, moved = staging / f"{TRASH}{uuid.uuid4().hex}", target / f"{_PROBE}{uuid.uuid4().hex}"
    with explained("write to", staging):
        probe.mkdir()
    try:
        with explained("move a directory from staging into", target):
            os.rename(probe, moved)  # noqa: PTH104 - the system call itself, as in a commit
    except TargetUnusable as error:
        probe.rmdir()
        raise TargetUnusable(
            f"{error} The staging place {staging} must be in the same file system and the same mount as the target; "
            f"if the target is a mount itself, give staging={str(target / '.onceward')!r}."
        ) from error
    for left in target.glob(f"{_PROBE}*"):  # this one, and those of starts that died here
        with explained("write to", target), suppress(FileNotFoundError):
            left.rmdir()


def require_room_for(target: Path, epoch_column: str) -> None:
    """Refuse a directory in which readers that discover partitions could no longer see what is there already."""
    begin = f"{escape(epoch_column)}="
    with explained("list", target), os.scandir(target) as entries:
        for entry in entries:
            if entry.name == "_delta_log":
                raise TargetUnusable(f"path={str(target)!r} is a Delta table: write to it with ow.DeltaSink")
            if entry.name.startswith((begin, *_HIDDEN)):
                continue
            raise TargetUnusable(
                f"path={str(target)!r} already holds {entry.name!r}. Readers that discover partitions would find "
                f"{begin}… beside it and pass over one of them; give the file sink a directory of its own"
            )


def _refused(option: str, text: str, scheme: str) -> TargetUnusable:
    if scheme in _HADOOP:
        return TargetUnusable(
            f"{option}={text!r}: the file sink does not speak HDFS. Mount it and give the local path, or write a lake "
            "table (ow.DeltaSink, ow.IcebergSink)"
        )
    return TargetUnusable(
        f"{option}={text!r}: {scheme}: is no local path, and object stores cannot rename a directory in one step, so "
        "readers would see parts of an epoch. Write a lake table there (ow.DeltaSink, ow.IcebergSink), or give a "
        "local or mounted path"
    )
