"""Where an epoch's files wait: in the table's own directory, under a name that tells whose they are.

    <place>/onceward-<hash of pipeline, sink, lineage>/<epoch>/<term>-<attempt>-<random>.parquet

The folder of an epoch also stays the home of its files once the table names them. So what may be deleted follows from
the table's marker alone: everything in folders of epochs after the last committed one, and, in the folder of an epoch
that was just committed, everything that its committable does not name. Folders of older epochs are never touched:
their files may be part of the table's history. An abort deletes nothing of a newer term: a paused driver that wakes
must not take away what its successor has staged.

A committable holds the files themselves while they are few; many go into a manifest beside them, whose name and hash
the committable holds.
"""

import errno
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from pyarrow import fs

from onceward.epoch.contract import EpochContext, Owner
from onceward.errors import HomeMismatch, SinkUnreachable, StagingLost
from onceward.secret import Exposure

FORMAT: Final = 1
INLINE_BYTES: Final = 16 << 10  # a committable beyond this is written beside the files, and only named
# What Arrow's file systems call the secrets that they were made with.
_KEYS: Final = ("secret_key", "session_token", "access_token", "account_key", "client_secret", "sas_token")
_NAME: Final = re.compile(r"(?P<term>\d+)-\d+-[0-9a-f]{32}\.(parquet|manifest)")


class StagedFile(msgspec.Struct, frozen=True, array_like=True):
    """One finished file: its name below the place, and what the table wants to know of it."""

    name: str
    size: int
    rows: int
    partition: list[str | None]
    statistics: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A directory of a file system; picklable, so that tasks can write there."""

    filesystem: fs.FileSystem
    path: str

    @property
    def is_local(self) -> bool:
        """Local files need a sync to survive a power cut; object stores have it built in."""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def exposure(self) -> Exposure:
        """Keys that a file system was given travel inside it; those that it finds by itself do not."""
        settings = {} if self.is_local else self.filesystem.__reduce__()[1][0]
        return Exposure.of(str(settings[key]) for key in _KEYS if isinstance(settings, dict) and settings.get(key))

    def at(self, name: str) -> str:
        """The path of a name."""
        return f"{self.path}/{name}"

    def make(self, folder: str) -> None:
        self.filesystem.create_dir(self.at(folder), recursive=True)

    def open_output(self, name: str) -> Any:
        """A stream into a new file."""
        return self.filesystem.open_output_stream(self.at(name))

    def sizes(self, names: list[str]) -> list[int | None]:
        """Of each file; None if there is none."""
        found = self.filesystem.get_file_info([self.at(name) for name in names])
        return [int(info.size) if info.type is fs.FileType.File else None for info in found]

    def names(self, folder: str) -> list[str]:
        """What is in a folder, without the folder's name."""
        selector = fs.FileSelector(self.at(folder), allow_not_found=True)
        return sorted(found.base_name for found in self.filesystem.get_file_info(selector))

    def read(self, name: str) -> bytes | None:
        """A small file's bytes; None if there is none."""
        try:
            with self.filesystem.open_input_stream(self.at(name)) as stream:
                return bytes(stream.read())
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """A file; none there is fine."""
        try:
            self.filesystem.delete_file(self.at(name))
        except FileNotFoundError:
            return

    def remove_empty(self, folder: str) -> None:
        """A folder without files. Object stores have none: they drop it with its last file."""
        if self.is_local:
            try:
                Path(self.at(folder)).rmdir()
            except OSError:  # somebody's file is in it, or it is gone
                return

    def sync(self, name: str) -> None:
        """Make a file, or the names in a folder, survive a power cut."""
        if self.is_local:
            descriptor = os.open(self.at(name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def sync_above(self) -> None:
        """Make the names of the folders that lead here survive a power cut: libraries make them, and sync none.

        Once per process is enough. A folder that may not be read was not made by this user.
        """
        for folder in Path(self.path).parents if self.is_local else ():
            try:
                descriptor = os.open(folder, os.O_RDONLY)
            except PermissionError:
                return
            try:
                os.fsync(descriptor)
            except OSError as error:  # far up there may be a file system that does not sync folders
                if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                    raise
            finally:
                os.close(descriptor)


@dataclass(frozen=True, slots=True)
class Staging:
    """The part of a place that belongs to one owner."""

    place: Place
    owner: Owner

    @property
    def root(self) -> str:
        """The owner's folder. No hidden name: what a crash leaves for ever is the table's own clean-up's to find."""
        identity = json.dumps([self.owner.pipeline, self.owner.sink, self.owner.lineage])
        return f"onceward-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"

    def folder(self, epoch: int) -> str:
        """Where an epoch's files are."""
        return f"{self.root}/{epoch}"

    def prefix(self, context: EpochContext) -> str:
        """How the names of one try's files begin."""
        return f"{self.folder(context.epoch)}/{self.owner.term}-{context.attempt}-"

    def seal(self, context: EpochContext, files: list[StagedFile]) -> dict[str, Any]:
        """Check the files, make their names durable, and say in small JSON which they are."""
        if lost := self._lost(files):
            raise SinkUnreachable(
                f"epoch {context.epoch}: {lost}, though a task has just written it; the epoch is redone. Every machine "
                "that runs tasks must see the table's directory under this name."
            )
        committable = {"version": FORMAT, "files": msgspec.to_builtins(files)}
        body = msgspec.json.encode(files)
        if len(body) > INLINE_BYTES:
            name = f"{self.prefix(context)}{uuid.uuid4().hex}.manifest"
            with self.place.open_output(name) as stream:
                stream.write(body)
            self.place.sync(name)
            committable = {"version": FORMAT, "manifest": name, "sha256": hashlib.sha256(body).hexdigest()}
        if files:
            for folder in (self.folder(context.epoch), self.root, ""):
                self.place.sync(folder)
        return committable

    def files_of(self, epoch: int, committable: Mapping[str, Any]) -> list[StagedFile]:
        """The files that a committable names, all there."""
        if committable["version"] != FORMAT:
            raise HomeMismatch(
                f"epoch {epoch} was staged in format {committable['version']} by another Onceward, this one reads "
                f"{FORMAT}: finish it with that version"
            )
        files = msgspec.convert(self._named(epoch, committable), type=list[StagedFile])
        if lost := self._lost(files):
            raise StagingLost(
                f"epoch {epoch} is decided, and {lost}. Somebody deleted what was staged (a vacuum or orphan clean-up "
                "with a short retention?). Restore the files from a backup and start again; the pipeline does not go "
                "on without them."
            )
        return files

    def tidy(self, epoch: int, committable: Mapping[str, Any]) -> None:
        """After a commit: whatever failed or repeated tasks left beside the files that count."""
        try:
            named = msgspec.convert(self._named(epoch, committable), type=list[StagedFile])
        except StagingLost:  # the manifest goes last: an earlier call has done it all
            return
        keep = {file.name for file in named}
        if "manifest" in committable:
            self.clear_folder(self.folder(epoch), keep | {committable["manifest"]})
        self.clear_folder(self.folder(epoch), keep)

    def clear(self, after: int | None, upto: int) -> None:
        """Delete what is staged for epochs after the last committed one, up to this one, by this term or older."""
        for text in self.place.names(self.root):
            if text.isdecimal() and (after is None or int(text) > after) and int(text) <= upto:
                ours = [(name, _term_of(name)) for name in self._names(self.folder(int(text)))]
                self._remove(name for name, term in ours if term is not None and term <= self.owner.term)
                self.place.remove_empty(self.folder(int(text)))
        self.place.remove_empty(self.root)

    def remove(self, files: Iterable[StagedFile]) -> None:
        """These, which were never voted for."""
        self._remove(file.name for file in files)

    def plain_folder(self) -> str:
        """A new folder for files that are not staged, out of the way of `clear`."""
        return f"{self.root}/plain-{uuid.uuid4().hex}"

    def clear_folder(self, folder: str, keep: Iterable[str]) -> None:
        """Delete our files in a folder, but these."""
        kept = set(keep)
        self._remove(name for name in self._names(folder) if name not in kept and _term_of(name) is not None)
        self.place.remove_empty(folder)

    def _names(self, folder: str) -> list[str]:
        return [f"{folder}/{name}" for name in self.place.names(folder)]

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.place.remove(name)

    def _named(self, epoch: int, committable: Mapping[str, Any]) -> Any:
        if "manifest" not in committable:
            return committable["files"]
        body = self.place.read(committable["manifest"])
        if body is None or hashlib.sha256(body).hexdigest() != committable["sha256"]:
            state = "gone" if body is None else "damaged"
            raise StagingLost(
                f"epoch {epoch} is decided, and the list of its files, {self.place.at(committable['manifest'])}, is "
                f"{state}. Restore it from a backup and start again."
            )
        return msgspec.json.decode(body)

    def _lost(self, files: list[StagedFile]) -> str:
        for file, size in zip(files, self.place.sizes([file.name for file in files]), strict=True):
            if size != file.size:
                state = "is gone" if size is None else f"has {size} bytes instead of {file.size}"
                return f"its file {self.place.at(file.name)} {state}"
        return ""


def _term_of(name: str) -> int | None:
    """The term that wrote a file; None if it is not one of ours, which is nobody's to delete."""
    found = _NAME.fullmatch(name.rpartition("/")[2])
    return int(found["term"]) if found else None
