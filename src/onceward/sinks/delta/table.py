"""A Delta table through `deltalake`: what it says, and one new log entry.

The atomic step is the log itself: entry N+1 can be put there by one writer only. `deltalake` would resolve a conflict
by itself and put a later entry; here it may not (`max_commit_retries=0`), so that an entry goes in only on top of the
version that was read, marker included (docs/sinks/delta.md tells what else was tried).
"""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import fs
from pyspark.sql.types import StructType

from onceward.epoch.contract import LastCommit, Owner
from onceward.errors import InvalidRows, SinkUnreachable, TargetUnusable
from onceward.sinks.delta import marker
from onceward.sinks.delta.layout import DeltaLayout
from onceward.sinks.parquet import columns
from onceward.sinks.parquet.sink import Entry, LakeTable, Reading
from onceward.sinks.parquet.staging import Place, StagedFile

# Features of a table that an append may pass over, as long as nothing in the table uses those of the second line.
_HARMLESS: Final = {"appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz", "v2Checkpoint", "variantType"}
_CHECKED: Final = {"checkConstraints", "columnMapping", "generatedColumns", "invariants"}
_SPECIAL_FIELDS: Final = ("delta.generationExpression", "delta.identity", "delta.columnMapping")
_FORBIDDEN: Final = set(" ,;{}()\n\t=")  # in names of columns: Spark cannot read such a table


@dataclass(frozen=True, slots=True)
class _Known:
    """What the log said up to an entry, and which file that entry was."""

    version: int
    file: tuple[int, ...]
    last: LastCommit | None


class DeltaLakeTable(LakeTable):
    """One table in a directory."""

    def __init__(self, path: Path, owner: Owner, partition_by: tuple[str, ...]) -> None:
        self.name = f"the Delta table {path}"
        self.path = path
        self.owner = owner
        self.partition_by = partition_by
        self.durable = -1  # log entries up to this one have been synced by this process
        self._known: _Known | None = None

    def read(self) -> Reading | None:
        try:
            reading = DeltaReading(self, DeltaTable(str(self.path)))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise SinkUnreachable(f"{self.name} cannot be read ({error}); it is tried again") from error
        reading.require_writable()
        self.know(reading.version, reading.last)
        return reading

    def last_commit(self) -> LastCommit | None:
        """Two looks at the log's files if nothing has happened since it was last read; loading it takes tens of ms.

        An entry is written once and never changed. So as long as the newest entry that was read is the very same file,
        and no entry follows it, the log says what it said: a table that was set back has lost that file, or, where it
        has grown again since, has another one in its place.
        """
        known = self._known
        if known is not None and _file_of(self._entry(known.version)) == known.file:
            try:
                self._entry(known.version + 1).lstat()
            except FileNotFoundError:
                return known.last
        reading = self.read()
        return None if reading is None else reading.last

    def know(self, version: int, last: LastCommit | None) -> None:
        """Remember what the log says up to this entry."""
        file = _file_of(self._entry(version))
        self._known = None if file is None else _Known(version, file, last)

    def _entry(self, version: int) -> Path:
        return self.path / "_delta_log" / f"{version:020}.json"

    def create(self, columns_: StructType) -> None:
        """With every column nullable, as Spark does it."""
        schema = columns.arrow_schema(columns_, nullable=True)
        for name in schema.names:
            if _FORBIDDEN & set(name):
                raise InvalidRows(
                    f"a Delta table cannot have a column {name!r}: rename it without spaces and any of ,;{{}}()="
                )
        for name in self.partition_by:
            if name not in schema.names:
                raise InvalidRows(f"partition_by names {name!r}, which the rows have not ({', '.join(schema.names)})")
        _check_partitions(schema, self.partition_by, self.name)
        if not set(schema.names) - set(self.partition_by):
            raise InvalidRows(f"{self.name} needs a column besides those of partition_by")
        try:
            DeltaTable.create(
                str(self.path), Schema.from_arrow(schema), mode="ignore", partition_by=list(self.partition_by)
            )
        except (DeltaError, OSError) as error:  # somebody may have made it at the same moment: reading tells
            if self.read() is None:
                raise TargetUnusable(f"{self.name} cannot be created: {error}") from error


class DeltaReading(Reading):
    """A version of the table."""

    def __init__(self, table: DeltaLakeTable, delta: DeltaTable) -> None:
        self._table = table
        self._delta = delta
        self.version = delta.version()
        self.place = Place(fs.LocalFileSystem(), str(table.path))
        self.last = marker.last_commit(table.owner, delta.transaction_version)
        self.epoch = marker.last_epoch(table.owner, delta.transaction_version)

    def require_writable(self) -> None:
        """Refuse what an append of finished files would silently break."""
        protocol, metadata, schema = self._delta.protocol(), self._delta.metadata(), self._delta.schema()
        used = sorted(set(protocol.writer_features or ()) - _HARMLESS - _CHECKED)
        used += [key for key in metadata.configuration if key.startswith("delta.constraints.")]
        if metadata.configuration.get("delta.columnMapping.mode", "none") != "none":
            used.append("delta.columnMapping.mode")
        used += [f"invariant of {column}" for column, _ in schema.invariants]
        used += [
            f"{key} of {field.name}"
            for field in schema.fields
            for key in field.metadata
            if key.startswith(_SPECIAL_FIELDS)
        ]
        if used:
            raise TargetUnusable(
                f"{self._table.name} uses {', '.join(used)}, which this sink cannot keep up: drop that from the table, "
                "or write to another one"
            )
        wanted, found = self._table.partition_by, tuple(metadata.partition_columns)
        if wanted and wanted != found:
            raise TargetUnusable(
                f"{self._table.name} is partitioned by {list(found)}, and the sink says partition_by={list(wanted)}"
            )

    def layout(self, columns_: StructType) -> tuple[DeltaLayout, Mapping[str, Any]]:
        """The table's own columns; the rows must fit."""
        schema = self._schema()
        columns.check_fit(columns.arrow_schema(columns_), schema, self._table.name)
        partition_by = tuple(self._delta.metadata().partition_columns)
        _check_partitions(schema, partition_by, self._table.name)
        return DeltaLayout(schema, partition_by), {"schema": self._fingerprint(), "partition_by": list(partition_by)}

    def attempt(self, entry: Entry) -> bool:
        """The log entry after this version, if nobody has put one there."""
        if entry.epoch is None:
            raise AssertionError("a plain append has no marker to compare")
        self._require_fit(entry)
        owner = self._table.owner
        marks = marker.numbers(owner, entry.epoch, self.last)
        told = {"pipeline": owner.pipeline, "sink": owner.sink, "lineage": owner.lineage}
        told |= {"epoch": str(entry.epoch), "term": str(owner.term)}
        properties = CommitProperties(
            custom_metadata={f"onceward.{key}": value for key, value in told.items()},
            app_transactions=[Transaction(name, number) for name, number in marks.items()],
            max_commit_retries=0,
        )
        try:
            self._write(entry, properties)
        except CommitFailedError:
            return False
        except (DeltaError, OSError) as error:
            # The entry may be there, and what follows it (a checkpoint, say) may have failed: the marker tells.
            raise SinkUnreachable(f"{self._table.name}: epoch {entry.epoch} is tried again ({error})") from error
        self._table.know(self.version + 1, LastCommit(lineage=owner.lineage, epoch=entry.epoch, term=owner.term))
        return True

    def append(self, entry: Entry) -> None:
        """With `deltalake`'s own way of going round other writers."""
        try:
            self._write(entry, CommitProperties())
        except (DeltaError, OSError) as error:
            raise SinkUnreachable(f"{self._table.name} has not taken an append ({error})") from error

    def settle(self) -> None:
        """Sync the log from the last checkpoint on, up to the newest entry: a hole in it would cut off what follows."""
        log = self._table.path / "_delta_log"
        newest = self.version
        while (log / f"{newest + 1:020}.json").exists():
            newest += 1
        checkpoint = _last_checkpoint(log)
        names = [f"{version:020}.json" for version in range(max(self._table.durable + 1, checkpoint), newest + 1)]
        for name in (*names, f"{checkpoint:020}.checkpoint.parquet"):
            if (log / name).exists():
                self.place.sync(f"_delta_log/{name}")
        self.place.sync("_delta_log")
        if self._table.durable < 0:
            self.place.sync("")
            self.place.sync_above()
        self._table.durable = newest

    def _write(self, entry: Entry, properties: CommitProperties) -> None:
        now = int(time.time() * 1000)
        partition_by = entry.facts["partition_by"]
        actions: list[AddAction | RemoveAction] = [_add(file, partition_by, now) for file in entry.files]
        self._delta.create_write_transaction(
            actions, "append", self._delta.schema(), partition_by, commit_properties=properties
        )

    def _require_fit(self, entry: Entry) -> None:
        """The table may have changed since the files were written; a column more does no harm."""
        partition_by = list(self._delta.metadata().partition_columns)
        if entry.facts["schema"] == self._fingerprint() and entry.facts["partition_by"] == partition_by:
            return
        reason = ""
        if entry.facts["partition_by"] != partition_by:
            reason = f"it is partitioned by {partition_by} now, by {entry.facts['partition_by']} then"
        elif entry.files:
            inside = self._schema()
            for name in partition_by:
                inside = inside.remove(inside.get_field_index(name))
            try:
                columns.check_fit(pq.read_schema(self.place.at(entry.files[0].name)), inside, self._table.name)
            except InvalidRows as error:
                reason = str(error)
        if reason:
            raise TargetUnusable(
                f"{self._table.name} was changed while epoch {entry.epoch}, which is decided, waited to be committed: "
                f"{reason}. Change it back, then start the pipeline again."
            )

    def _schema(self) -> pa.Schema:
        return pa.schema(self._delta.schema().to_arrow())

    def _fingerprint(self) -> str:
        return hashlib.sha256(self._delta.schema().to_json().encode()).hexdigest()[:16]


def _add(file: StagedFile, partition_by: list[str], now: int) -> AddAction:
    return AddAction(
        path=file.name,
        size=file.size,
        partition_values=dict(zip(partition_by, file.partition, strict=True)),
        modification_time=now,
        data_change=True,
        stats=file.statistics or "",
    )


def _file_of(path: Path) -> tuple[int, ...] | None:
    """What tells one file from another under the same name; None if there is none."""
    try:
        with path.open("rb") as file:  # opened, since network file systems answer a mere stat from memory
            found = os.fstat(file.fileno())
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_ctime_ns


def _last_checkpoint(log: Path) -> int:
    """Its version; 0 if there is none, or its file is being written just now: then a few more entries are synced."""
    try:
        return int(json.loads((log / "_last_checkpoint").read_text("utf-8"))["version"])
    except (OSError, ValueError, KeyError):
        return 0


def _check_partitions(schema: pa.Schema, partition_by: tuple[str, ...], name: str) -> None:
    for column in partition_by:
        data_type = schema.field(column).type
        if pa.types.is_nested(data_type) or pa.types.is_binary(data_type):
            raise TargetUnusable(f"{name} cannot be partitioned by {column!r}: its type is {data_type}")
