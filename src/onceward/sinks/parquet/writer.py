"""What runs where the rows are, in Spark's tasks or in the driver: rows into Parquet files, with bounded memory.

Every call names its files by chance, and only what it reports counts: a task that Spark runs again, or twice at once,
harms nothing. A file is closed and synced before it is reported.
"""

import contextlib
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from onceward import crashpoints
from onceward.epoch.outcome import Outcome, PartitionOutcome
from onceward.secret import Exposure
from onceward.sinks.parquet.staging import Place, StagedFile
from onceward.sinks.rows import HASH, Report, part_of

FILE_BYTES: Final = 128 << 20  # a file is closed beyond this: large enough to scan well, small enough to rewrite
ROW_GROUP_BYTES: Final = 32 << 20  # of Arrow data; what readers fetch at once
BUFFER_BYTES: Final = 64 << 20  # of Arrow data that a task holds back, over all its files
OPEN_FILES: Final = 100  # a task with more partitions than this closes its fullest file before it opens another

Key = tuple[str | None, ...]  # a partition's values, as the table writes them


class Layout(Protocol):
    """How rows become a table's files."""

    @property
    def schema(self) -> pa.Schema:
        """Of the files."""

    @property
    def compression(self) -> str:
        """Of the files."""

    def split(self, batch: pa.RecordBatch) -> Iterable[tuple[Key, pa.Table]]:
        """The rows in the files' columns, apart by partition."""

    def statistics(self, metadata: pq.FileMetaData) -> str | None:
        """What the table wants to know of a file's columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFiles:
    """Takes rows, reports files. Small: it is shipped with each task."""

    place: Place
    prefix: str  # folder and beginning of the names
    epoch: int
    names: tuple[str, ...]  # of the rows' columns, which may arrive under others
    layout: Layout

    @property
    def exposure(self) -> Exposure:
        """What somebody who reads it learns of secrets."""
        return self.place.exposure

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterable[Report]:
        """Write everything; one report."""
        files = _Files(self)
        total = PartitionOutcome(0, 0)
        try:
            for batch in batches:
                total += part_of(batch)
                files.add(batch.drop_columns([HASH]).rename_columns(list(self.names)))
            finished = files.finish()
        except BaseException:
            files.discard()
            raise
        yield {
            "rows": total.rows,
            "digest": total.digest,
            "files": [[file.name, file.size, file.rows, file.partition, file.statistics] for file in finished],
        }


def collected(reports: list[Report]) -> tuple[Outcome, list[StagedFile]]:
    """What all calls together wrote."""
    parts = (PartitionOutcome(report["rows"], report["digest"]) for report in reports)
    total = sum(parts, start=PartitionOutcome(0, 0))
    return Outcome(rows=total.rows, digest=total.digest), [
        StagedFile(*file) for report in reports for file in report["files"]
    ]


@dataclass(slots=True)
class _Open:
    """A file being written, and rows that wait for their row group."""

    name: str
    stream: Any
    writer: pq.ParquetWriter
    waiting: list[pa.Table] = field(default_factory=list)
    waiting_bytes: int = 0
    rows: int = 0


class _Files:
    """The files of one call: one open per partition, and those that are done."""

    def __init__(self, work: WriteFiles) -> None:
        self._work = work
        self._open: dict[Key, _Open] = {}
        self._done: list[StagedFile] = []
        self._made: list[str] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Sort the rows into their files; write what has become too much to hold."""
        for key, rows in self._work.layout.split(batch):
            file = self._file(key)
            file.waiting.append(rows)
            file.waiting_bytes += rows.nbytes
            if file.waiting_bytes >= ROW_GROUP_BYTES:
                self._flush(file)
            if file.stream.tell() >= FILE_BYTES:
                self._close(key)
        while sum(file.waiting_bytes for file in self._open.values()) > BUFFER_BYTES:
            self._flush(max(self._open.values(), key=lambda file: file.waiting_bytes))

    def finish(self) -> list[StagedFile]:
        for key in list(self._open):
            self._close(key)
        return self._done

    def discard(self) -> None:
        """This try has failed: take away what can be taken away. The epoch's end finds the rest."""
        for file in self._open.values():
            with contextlib.suppress(Exception):
                file.writer.close()
            with contextlib.suppress(Exception):
                file.stream.close()
        for name in self._made:
            with contextlib.suppress(Exception):
                self._work.place.remove(name)

    def _file(self, key: Key) -> _Open:
        if key in self._open:
            return self._open[key]
        if len(self._open) >= OPEN_FILES:
            self._close(max(self._open, key=lambda key: (self._open[key].rows, self._open[key].waiting_bytes)))
        work = self._work
        if not self._made:
            work.place.make(work.prefix.rpartition("/")[0])
        name = f"{work.prefix}{uuid.uuid4().hex}.parquet"
        self._made.append(name)
        stream = work.place.open_output(name)
        writer = pq.ParquetWriter(
            stream, work.layout.schema, compression=work.layout.compression, store_decimal_as_integer=True
        )
        self._open[key] = _Open(name, stream, writer)
        return self._open[key]

    def _flush(self, file: _Open) -> None:
        rows = pa.concat_tables(file.waiting)
        file.writer.write_table(rows, row_group_size=max(rows.num_rows, 1))
        file.rows += rows.num_rows
        file.waiting, file.waiting_bytes = [], 0
        crashpoints.reach("writing" if TaskContext.get() is None else "task-writing", self._work.epoch)

    def _close(self, key: Key) -> None:
        file = self._open[key]
        if file.waiting:
            self._flush(file)
        file.writer.close()
        size = file.stream.tell()
        file.stream.close()
        self._work.place.sync(file.name)
        del self._open[key]
        statistics = self._work.layout.statistics(file.writer.writer.metadata)
        self._done.append(StagedFile(file.name, size, file.rows, list(key), statistics))
