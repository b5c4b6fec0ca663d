"""What runs where the rows are, in Spark's tasks or in the driver: rows into files, with bounded memory.

Each call writes into a directory of its own, and only what it reports counts: a task that Spark runs again, or one
that lives on after its try was given up, adds nothing.
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from onceward import crashpoints
from onceward.epoch.outcome import PartitionOutcome
from onceward.errors import InvalidRows, TargetUnusable
from onceward.sinks.files.columns import PARTITION
from onceward.sinks.files.encoding import Encoding, OpenFile
from onceward.sinks.files.failures import explained
from onceward.sinks.files.layout import MAX_NAME_BYTES, partition_folder
from onceward.sinks.files.staging import make_folders
from onceward.sinks.rows import HASH, Report, part_of

ROW_GROUP_BYTES: Final = 32 << 20  # of Arrow data; what readers fetch at once
BUFFER_BYTES: Final = 64 << 20  # of Arrow data that a task holds back, over all its files
OPEN_FILES: Final = 100  # a task with more partitions than this closes the file it has not used for longest

Folders = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFiles:
    """Takes rows, reports files. Small: it is shipped with each task.

    `published`: under the weaker guarantees, the target and the directory in it where each finished file goes at once.
    """

    folder: str
    epoch: int
    encoding: Encoding
    partition_by: tuple[str, ...] = ()
    published: tuple[str, str] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[Report]:
        """Write everything; one report."""
        with explained("write into", self.folder):
            return [self._write(batches)]

    def _write(self, batches: Iterator[pa.RecordBatch]) -> Report:
        files, total = _Files(self), PartitionOutcome(0, 0)
        try:
            for batch in batches:
                if batch.num_rows:
                    total += part_of(batch)
                    for folders, rows in self._split(batch):
                        files.add(folders, rows)
                    self._crash_point(files)
            files.finish()
        except BaseException:
            files.abandon()
            raise
        if self.published is not None:
            self._publish(*self.published, files.finished)
        return {"rows": total.rows, "digest": total.digest, "files": files.finished}

    def _split(self, batch: pa.RecordBatch) -> Iterator[tuple[Folders, pa.RecordBatch]]:
        """The rows of each partition, in their order, without our own columns."""
        data = batch.select([name for name in batch.schema.names if name != HASH and not name.startswith(PARTITION)])
        data = data.replace_schema_metadata(None)
        if not self.partition_by:
            yield (), data
            return
        columns = [batch.column(f"{PARTITION}{number}") for number in range(len(self.partition_by))]
        for where in _groups(columns):
            first = int(where[0])
            values = [column[first].as_py() for column in columns]
            yield self._folders(values), data.take(pa.array(where))

    def _folders(self, values: list[str | None]) -> Folders:
        folders = tuple(partition_folder(name, value) for name, value in zip(self.partition_by, values, strict=True))
        for name, folder in zip(self.partition_by, folders, strict=True):
            if len(folder.encode()) > MAX_NAME_BYTES:
                raise InvalidRows(
                    f"partition_by column {name!r} has a value whose directory would have a name of "
                    f"{len(folder.encode())} bytes, and file systems take {MAX_NAME_BYTES}: {folder[:60]}…"
                )
        return folders

    def _publish(self, target: str, folder: str, finished: list[list[Any]]) -> None:
        """As plain Spark does: each file when it is finished."""
        for task, inner, _ in finished:
            *folders, name = inner.split("/")
            place = make_folders(target, (folder, *folders))
            os.rename(f"{self.folder}/{task}/{inner}", f"{place}/{name}")  # noqa: PTH104 - one system call

    def _crash_point(self, files: "_Files") -> None:
        point = "writing" if TaskContext.get() is None else "task-writing"
        if crashpoints.armed(point, self.epoch):
            files.flush()
            crashpoints.reach(point, self.epoch)


class _Files:
    """The files of one call: one open for each partition, and those that are finished."""

    def __init__(self, work: WriteFiles) -> None:
        task = TaskContext.get()
        self.number = 0 if task is None else task.partitionId()
        self.task = f"task-{self.number:05d}-{uuid.uuid4().hex}"
        self.finished: list[list[Any]] = []
        self._encoding = work.encoding
        self._root = f"{work.folder}/{self.task}"
        self._open: dict[Folders, OpenFile] = {}
        try:
            os.mkdir(self._root)  # noqa: PTH102 - never with its parents: they may have been swept away
        except FileNotFoundError:
            raise TargetUnusable(
                f"{work.folder} is not there where this task runs. The file sink's path and staging must be on a file "
                "system that the driver and all executors share; or a newer driver has taken over and cleaned up."
            ) from None

    def add(self, folders: Folders, rows: pa.RecordBatch) -> None:
        file = self._open.pop(folders, None) or self._new(folders)
        self._open[folders] = file  # the last one used comes last
        file.add(rows)
        if file.held_bytes >= ROW_GROUP_BYTES:
            file.flush()
        while sum(each.held_bytes for each in self._open.values()) > BUFFER_BYTES:
            max(self._open.values(), key=lambda each: each.held_bytes).flush()

    def flush(self) -> None:
        for file in self._open.values():
            file.flush()

    def finish(self) -> None:
        while self._open:
            self._finish_one()

    def abandon(self) -> None:
        for file in self._open.values():
            file.abandon()

    def _new(self, folders: Folders) -> OpenFile:
        if len(self._open) >= OPEN_FILES:
            self._finish_one()
        place = make_folders(self._root, folders)
        return self._encoding.open(f"{place}/part-{self.number:05d}-{uuid.uuid4().hex}{self._encoding.suffix}")

    def _finish_one(self) -> None:
        file = self._open[next(iter(self._open))]
        size = file.finish()
        del self._open[next(iter(self._open))]
        self.finished.append([self.task, file.path.removeprefix(f"{self._root}/"), size])


def _groups(columns: list[pa.Array]) -> Iterator[np.ndarray[Any, np.dtype[np.int64]]]:
    """Positions of rows that have the same values in all columns, for each such set of values."""
    combined = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        coded = column.dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        # Made small again after each column, so that the product never overflows.
        _, combined = np.unique(combined * (len(coded.dictionary) + 1) + codes, return_inverse=True)
    order = np.argsort(combined, kind="stable")
    starts = np.flatnonzero(np.diff(combined[order])) + 1
    yield from np.split(order, starts)
