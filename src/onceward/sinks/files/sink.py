"""FileSink: the worked example of the contract. Stage a directory, then rename it: that is the commit.

begin = a staging place; write = files of tasks, each in a directory of its own; pre_commit = the files that successful
tasks report are moved together, synced, with a manifest; commit = one rename into the target; abort = delete.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from pyspark.sql import DataFrame

from onceward.epoch.contract import Committable, EpochContext, Guarantee, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.outcome import MODULUS, Outcome
from onceward.epoch.recovery import require_ours
from onceward.epoch.sealed import seal
from onceward.errors import HomeMismatch, SinkUnreachable, TargetUnusable
from onceward.sinks import rows as shared
from onceward.sinks.files import location, markers, ownership
from onceward.sinks.files.columns import FileColumns, require_names
from onceward.sinks.files.encoding import Encoding, checked
from onceward.sinks.files.failures import explained
from onceward.sinks.files.layout import MANIFEST, Manifest
from onceward.sinks.files.staging import Staging, Try, make_folders, sync_directory, write_synced
from onceward.sinks.files.target import Target, lost
from onceward.sinks.files.writing import WriteFiles
from onceward.sinks.succession import Succession, require_predecessor

VERSION: Final = 1  # of the committable
_WAY_OUT: Final = "Restore the target and its staging place together, to a state that has what the epoch follows:"


class FileSink(TwoPhaseCommitSink):
    """Publishes each epoch as one directory of files, `path/epoch=000000000012-1f3a9c04/`, by one rename.

    path: a directory of its own on a local or mounted file system that the driver and all executors share.
    format: "parquet", "json" (a line each) or "csv" (`header`: with column names in the first line of each file).
    partition_by: columns that become directories below the epoch's, as Spark's partitionBy does it.
    epoch_column: what readers see the epoch as.
    compression: parquet: zstd (the default), snappy, gzip, lz4, none; json and csv: none (the default), gzip.
    staging: where epochs are prepared; by default hidden beside the target. Must be on the same mount as the target.
    small_epoch_bytes: up to this size an epoch is collected and written by the driver itself; 0 never.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        format: Literal["parquet", "json", "csv"] = "parquet",  # noqa: A002 - as Spark calls it
        partition_by: str | Sequence[str] = (),
        epoch_column: str = "epoch",
        compression: str | None = None,
        header: bool = True,
        staging: str | Path | None = None,
        small_epoch_bytes: int = shared.SMALL_EPOCH_BYTES,
    ) -> None:
        self.path = location.parse(path, "path")
        self.staging = location.staging_for(self.path, staging)
        self.format = format
        self.compression = checked(format, compression)
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.epoch_column = epoch_column
        self.header = header
        self.small_epoch_bytes = small_epoch_bytes
        require_names(self.epoch_column, self.partition_by)
        self._columns = FileColumns(format=format, partition_by=self.partition_by, epoch_column=epoch_column)
        self._target = Target(self.path, epoch_column)
        self._size = shared.Size(small_epoch_bytes)
        self._written: dict[Try, list[list[Any]]] = {}
        self._succession = Succession()
        self._staging = Staging(self.staging, 0)

    def __repr__(self) -> str:
        return f"FileSink({str(self.path)!r}, format={self.format!r})"

    def open(self, owner: Owner) -> None:
        """Prove that the target can be written and is ours; clear away what can no longer be decided.

        Whoever may not have the target is refused before anything in it is touched.
        """
        super().open(owner)
        self._staging, self._written = Staging(self.staging, owner.term), {}
        self._succession.forget()
        if self._exactly_once and (last := self._last_commit()) is not None:
            require_ours(owner, owner.sink, last)
        location.open_both(self.path, self.staging)
        ownership.require_ours(self._staging, self.path, owner)
        location.require_room_for(self.path, self.epoch_column)
        if self._exactly_once:
            with explained("write to", self.staging):
                self._staging.have(markers.FOLDER)
        with explained("clean up", self.staging, decided=True):
            self._staging.sweep(lambda staged: not staged.ready and self._is_over(staged))

    def last_commit(self) -> LastCommit | None:
        """The newest marker, or a published directory that is newer: a crash came between the two."""
        last = self._last_commit()
        if not self.path.is_dir():
            raise SinkUnreachable(f"{self.path} is not there: mount it, or bring it back; it is tried again")
        return self._succession.told(last)

    def begin(self, context: EpochContext) -> None:
        with explained("write into", self.staging):
            if self._exactly_once:
                self._succession.begin(self.owner, context.epoch, self._last_commit())
            else:
                self._staging.sweep(self._is_mine)
            self._staging.make(self._try(context))

    def write(self, context: EpochContext, rows: DataFrame) -> Outcome:
        """Every file is closed and synced; under the weaker guarantees it is visible, too."""
        staged, folder = self._try(context), self._target.folder(context.epoch, self.owner.lineage)
        work = WriteFiles(
            folder=str(self._staging.path(staged)),
            epoch=context.epoch,
            encoding=self._encoding(rows),
            partition_by=self.partition_by,
            published=None if self._exactly_once else (str(self.path), folder.name),
        )
        reports = shared.run(self._columns.of(rows), context, self._size, work)
        self._written[staged] = [file for report in reports for file in report["files"]]
        digest = sum(report["digest"] for report in reports) % MODULUS
        return Outcome(rows=sum(report["rows"] for report in reports), digest=digest)

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:
        """Put together what successful tasks have written, and nothing else; sync it."""
        if not self._exactly_once:
            return {"version": VERSION}
        files = self._written.pop(self._try(context))
        assert bool(files) == bool(outcome.rows), f"{outcome.rows} rows in {len(files)} files"
        if files:
            with explained("prepare an epoch in", self.staging):
                self._gather(context, outcome, files)
        return {
            "version": VERSION,
            "term": self.owner.term,
            "attempt": context.attempt,
            "files": len(files),
            "rows": outcome.rows,
            "digest": outcome.digest,
            **self._succession.noted,
        }

    def commit(self, context: EpochContext, committable: Committable) -> None:
        """One rename, unless it is done already; then the marker; then the rest of the try goes."""
        if committable["version"] != VERSION:
            raise HomeMismatch(
                f"epoch {context.epoch} was prepared by another Onceward (version {committable['version']} of the file "
                f"sink's votes; this one reads {VERSION}): finish it with that one"
            )
        with explained("publish an epoch in", self.path, decided=True):
            if self._exactly_once:
                self._succession.forget()
                self._publish(context, committable)
            self._forget(context)

    def abort(self, context: EpochContext) -> None:
        """Delete what this term and older ones have staged, up to this epoch."""
        with explained("clean up", self.staging, decided=True):
            self._forget(context)

    @property
    def computing_s(self) -> float:
        """Where the rows were collected first."""
        return self._size.computing_s

    def digest(self, context: EpochContext, rows: DataFrame) -> Outcome:  # noqa: ARG002 - the contract names the epoch
        """What the rows would write."""
        return shared.digest(self._columns.of(rows))

    def describe(self) -> Mapping[str, Any]:
        """Everything is told; there are no secrets."""
        return {
            "path": str(self.path),
            "format": self.format,
            "partition_by": list(self.partition_by),
            "epoch_column": self.epoch_column,
            "compression": self.compression,
            "header": self.header,
            "staging": str(self.staging),
            "small_epoch_bytes": self.small_epoch_bytes,
        }

    def _last_commit(self) -> LastCommit | None:
        with explained("read", self.path):
            marker = markers.newest(self._staging) if self.staging.is_dir() else None
            published: Manifest | None = None
            if self.path.is_dir():
                lineage, since = (marker.lineage, marker.epoch) if marker is not None else (self.owner.lineage, None)
                published = self._target.newest(self.owner, lineage, since)
                if published is None and marker is None:
                    published = self._target.newest(self.owner, None)
        newer = published is not None and (marker is None or published.epoch > marker.epoch)
        last = published if newer else marker
        if last is None:
            return None
        outcome = Outcome(rows=last.rows, digest=last.digest)
        return LastCommit(lineage=last.lineage, epoch=last.epoch, term=last.term, outcome=outcome)

    def _gather(self, context: EpochContext, outcome: Outcome, files: list[list[Any]]) -> None:
        self._target.require_free(context.epoch, self.owner.lineage)
        trying, ready = self._staging.path(self._try(context)), self._staging.make(self._try(context, ready=True))
        places = {ready}
        for task, inner, size in files:
            source = trying / task / inner
            if not source.exists() or source.stat().st_size != size:
                raise TargetUnusable(
                    f"a task has written {source} ({size} bytes), and the driver does not find it so. The file sink's "
                    "path and staging must be on a file system that the driver and all executors share."
                )
            *folders, name = inner.split("/")
            source.rename(Path(make_folders(str(ready), tuple(folders))) / name)
            places |= {ready.joinpath(*folders[:depth]) for depth in range(len(folders) + 1)}
        write_synced(ready / MANIFEST, seal(self._manifest(context, outcome, len(files))))
        for place in (*places, self.staging):
            sync_directory(place)

    def _publish(self, context: EpochContext, committable: Committable) -> None:
        if self._is_marked(context.epoch):
            return
        last = self._last_commit()
        published = last is not None and last.lineage == self.owner.lineage and last.epoch >= context.epoch
        if not published:  # else a crash, or this moment of another process, lies between the rename and the marker
            require_predecessor(self.owner, context.epoch, committable, last, f"{_WAY_OUT} {self.staging}.")
        ready = Try(
            lineage=self.owner.lineage,
            epoch=context.epoch,
            term=committable["term"],
            attempt=committable["attempt"],
            ready=True,
        )
        source = self._staging.path(ready)
        # The marker is asked again: another process may have published it, and somebody archived it, in between.
        if committable["files"] and not self._target.publish(source, ready) and not self._is_marked(context.epoch):
            raise lost(source, self._target.folder(ready.epoch, ready.lineage), ready.epoch)
        marker = markers.Marker(
            pipeline=self.owner.pipeline,
            sink=self.owner.sink,
            lineage=self.owner.lineage,
            epoch=context.epoch,
            term=committable["term"],
            rows=committable["rows"],
            digest=committable["digest"],
        )
        markers.record(self._staging, marker)

    def _is_marked(self, epoch: int) -> bool:
        done = markers.highest_epoch(self._staging, self.owner.lineage)
        return done is not None and done >= epoch

    def _forget(self, context: EpochContext) -> None:
        self._written.clear()
        self._staging.sweep(lambda staged: self._is_mine(staged) and staged.epoch <= context.epoch)

    def _is_mine(self, staged: Try) -> bool:
        """Of this term or an older one: what a newer one has staged is not ours to take."""
        return staged.lineage == self.owner.lineage and staged.term <= self.owner.term

    def _is_over(self, staged: Try) -> bool:
        """Written by a process that this one has replaced."""
        return staged.lineage != self.owner.lineage or staged.term < self.owner.term

    def _manifest(self, context: EpochContext, outcome: Outcome, files: int) -> Manifest:
        return Manifest(
            pipeline=self.owner.pipeline,
            sink=self.owner.sink,
            lineage=self.owner.lineage,
            epoch=context.epoch,
            term=self.owner.term,
            attempt=context.attempt,
            rows=outcome.rows,
            digest=outcome.digest,
            files=files,
        )

    def _encoding(self, rows: DataFrame) -> Encoding:
        header = self._columns.header(rows) if self.format == "csv" and self.header else None
        return Encoding(format=self.format, compression=self.compression, header=header)

    def _try(self, context: EpochContext, *, ready: bool = False) -> Try:
        return Try(
            lineage=self.owner.lineage,
            epoch=context.epoch,
            term=self.owner.term,
            attempt=context.attempt,
            ready=ready,
        )

    @property
    def _exactly_once(self) -> bool:
        return self.owner.guarantee is Guarantee.EXACTLY_ONCE
