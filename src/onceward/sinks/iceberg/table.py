"""An Iceberg table through `pyiceberg`: what it says, and one new snapshot.

The atomic step is the catalogue's: it takes a commit only if the table's branch still points at the snapshot that the
commit was made from. `pyiceberg` answers a conflict by making the commit anew on top of the newer snapshot, four times,
without looking: a paused driver that wakes would add its rows a second time that way. So it may not retry here, which
is a table property to it; it is set in this process' copy of the metadata only, and never written.

An epoch without rows makes a snapshot too: without one the catalogue would compare nothing, and a late commit could
set the marker back.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import pyarrow.parquet as pq
from pyarrow import fs
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchNamespaceError,
    NoSuchTableError,
    NotInstalledError,
    TableAlreadyExistsError,
)
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.utils.properties import property_as_bool
from pyspark.sql.types import StructType

from onceward.epoch.contract import Owner
from onceward.errors import DependencyMissing, InvalidRows, SinkUnreachable, TargetUnusable
from onceward.sinks.iceberg import marker
from onceward.sinks.iceberg.layout import IcebergLayout
from onceward.sinks.parquet import columns
from onceward.sinks.parquet.sink import Entry, LakeTable, Reading
from onceward.sinks.parquet.staging import Place, StagedFile

FOOTERS_AT_ONCE: Final = 8  # files are opened to be named; on an object store each costs a round trip or two
# A snapshot per epoch makes much metadata: Iceberg's own ways of keeping that small are on in tables made here.
NEW_TABLE: Final = {
    TableProperties.MANIFEST_MERGE_ENABLED: "true",
    TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED: "true",
}

T = TypeVar("T")


class IcebergLakeTable(LakeTable):
    """One table of a catalogue."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: str,
        owner: Owner,
        partition_by: tuple[str, ...],
        properties: Mapping[str, str],
        redact: Callable[[str], str],
    ) -> None:
        self.name = f"the Iceberg table {identifier}"
        self.catalog = catalog
        self.identifier = identifier
        self.owner = owner
        self.partition_by = partition_by
        self.properties = {**NEW_TABLE, **properties}
        self.redact = redact
        self.durable: set[str] = set()  # metadata files that this process has synced

    def read(self) -> Reading | None:
        try:
            table = self.catalog.load_table(self.identifier)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        except Exception as error:  # noqa: BLE001 - every catalogue raises its own driver's errors
            raise self.unreachable("cannot be read", error) from None
        reading = IcebergReading(self, table)
        reading.require_writable()
        return reading

    def create(self, columns_: StructType) -> None:
        """With every column optional, partitioned by the values of `partition_by`."""
        schema = columns.arrow_schema(columns_, nullable=True)
        for name in self.partition_by:
            if name not in schema.names:
                raise InvalidRows(f"partition_by names {name!r}, which the rows have not ({', '.join(schema.names)})")
        try:
            self.catalog.create_namespace_if_not_exists(Catalog.namespace_from(self.identifier))
            making = self.catalog.create_table_transaction(self.identifier, schema, properties=self.properties)
            with making, making.update_spec() as spec:
                for name in self.partition_by:
                    spec.add_identity(name)
        except (TableAlreadyExistsError, CommitFailedException):  # somebody was faster: reading tells
            return
        except (ValueError, TypeError) as error:
            raise TargetUnusable(f"{self.name} cannot be created: {self.redact(str(error))}") from None
        except Exception as error:  # noqa: BLE001 - every catalogue raises its own driver's errors
            raise self.unreachable("cannot be created", error) from None

    def unreachable(self, what: str, error: Exception) -> SinkUnreachable:
        """An error of a library, without what is secret. Never chained: the original may quote it."""
        return SinkUnreachable(
            f"{self.name} {what} ({type(error).__name__}: {self.redact(str(error))}); it is tried again"
        )


class IcebergReading(Reading):
    """The table's metadata at one moment."""

    def __init__(self, lake: IcebergLakeTable, table: Table) -> None:
        self._lake = lake
        self._table = table
        newest_first = sorted(table.snapshots(), key=lambda snapshot: snapshot.sequence_number or 0, reverse=True)
        summaries = _summaries(newest_first)
        told = marker.last_commit(lake.owner, table.properties, summaries)
        self.last = marker.in_sight(lake.owner, told, *_history(table))
        self.epoch = marker.last_epoch(lake.owner, table.properties, summaries)
        self._io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)
        self._data = table.location_provider().data_path
        self.place = self._place(self._data)

    def require_writable(self) -> None:
        """Refuse what cannot be partitioned from here."""
        schema, spec = self._table.schema(), self._table.spec()
        for field in spec.fields:
            try:
                field.transform.pyarrow_transform(schema.find_field(field.source_id).field_type)
            except (NotInstalledError, ImportError) as error:
                raise DependencyMissing(
                    f"{self._lake.name} is partitioned by {field.transform} of a column, which needs pyiceberg-core "
                    f"({error}): pip install 'pyiceberg[pyiceberg-core]'"
                ) from error
            except NotImplementedError as error:
                raise TargetUnusable(
                    f"{self._lake.name} is partitioned by {field.transform}, which pyiceberg cannot compute"
                ) from error
        wanted = self._lake.partition_by
        found = tuple(schema.find_column_name(field.source_id) or "" for field in spec.fields)
        if wanted and wanted != found:
            raise TargetUnusable(
                f"{self._lake.name} is partitioned by {list(found)}, and the sink says partition_by={list(wanted)}"
            )

    def layout(self, columns_: StructType) -> tuple[IcebergLayout, Mapping[str, Any]]:
        """The table's current schema and spec; the rows must fit."""
        metadata = self._table.metadata
        layout = self._layout(metadata.current_schema_id, metadata.default_spec_id)
        columns.check_fit(columns.arrow_schema(columns_), layout.schema, self._lake.name)
        return layout, {"schema": metadata.current_schema_id, "spec": metadata.default_spec_id}

    def attempt(self, entry: Entry) -> bool:
        """One snapshot on top of the one that was read, if the catalogue still has that one."""
        if entry.epoch is None:
            raise AssertionError("a plain append has no marker to compare")
        epoch = entry.epoch
        try:
            self._append(entry, marker.for_snapshot(self._lake.owner, epoch), marker.for_table(self._lake.owner, epoch))
        except CommitFailedException:
            return False
        except Exception as error:  # noqa: BLE001 - it may be in or not: the marker tells, at the next try
            raise self._lake.unreachable(f"has not acknowledged epoch {epoch}", error) from None
        return True

    def append(self, entry: Entry) -> None:
        """With `pyiceberg`'s own way of going round other writers."""
        try:
            self._append(entry, {}, {})
        except Exception as error:  # noqa: BLE001 - every catalogue raises its own driver's errors
            raise self._lake.unreachable("has not taken an append", error) from None

    def settle(self) -> None:
        """Sync what the catalogue's entry leads to. A database syncs itself, a file system does not."""
        wanted = {self._table.metadata_location}
        if (snapshot := self._table.current_snapshot()) is not None:
            wanted |= {snapshot.manifest_list, *(found.manifest_path for found in snapshot.manifests(self._io))}
        for location in wanted - self._lake.durable:
            folder, _, name = location.rpartition("/")
            place = self._place(folder)
            place.sync(name)
            place.sync("")
            if not self._lake.durable:
                place.sync_above()
        self._lake.durable = wanted

    def _append(self, entry: Entry, summary: dict[str, str], properties: dict[str, str]) -> None:
        table, facts = self._table, entry.facts
        local: dict[str, Any] = {}
        if properties:
            local["properties"] = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        if facts["spec"] != table.metadata.default_spec_id:  # changed meanwhile: the files keep the one they have
            local |= {"default_spec_id": facts["spec"], "current_schema_id": facts["schema"]}
        files = self._data_files(entry.files, self._layout(facts["schema"], facts["spec"]))
        table.metadata = table.metadata.model_copy(update=local)
        transaction = table.transaction()
        if properties:
            transaction.set_properties(properties)
        merges = property_as_bool(table.metadata.properties, TableProperties.MANIFEST_MERGE_ENABLED, False)  # noqa: FBT003
        update = transaction.update_snapshot(snapshot_properties=summary)
        with update.merge_append() if merges else update.fast_append() as snapshot:
            for file in files:
                snapshot.append_data_file(file)
        transaction.commit_transaction()

    def _data_files(self, files: list[StagedFile], layout: IcebergLayout) -> list[DataFile]:
        plan = compute_statistics_plan(layout.table, self._table.metadata.properties)
        paths = parquet_path_to_id_mapping(layout.table)

        def described(file: StagedFile) -> DataFile:
            with self.place.filesystem.open_input_file(self.place.at(file.name)) as stream:
                footer = pq.read_metadata(stream)
            return DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{self._data}/{file.name}",
                file_format=FileFormat.PARQUET,
                partition=layout.record(file.partition),
                file_size_in_bytes=file.size,
                sort_order_id=None,
                spec_id=layout.spec.spec_id,
                equality_ids=None,
                key_metadata=None,
                **data_file_statistics_from_parquet_metadata(footer, plan, paths).to_serialized_dict(),
            )

        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            return list(pool.map(described, files))

    def _layout(self, schema_id: int, spec_id: int) -> IcebergLayout:
        codec = self._table.properties.get(
            TableProperties.PARQUET_COMPRESSION, TableProperties.PARQUET_COMPRESSION_DEFAULT
        )
        compression = "none" if codec == "uncompressed" else codec
        return IcebergLayout(self._table.schemas()[schema_id], self._table.specs()[spec_id], compression)

    def _place(self, location: str) -> Place:
        scheme, host, path = PyArrowFileIO.parse_location(location, self._io.properties)
        filesystem = fs.LocalFileSystem() if scheme == "file" else self._io.fs_by_scheme(scheme, host)
        return Place(filesystem, path.rstrip("/"))


def _history(table: Table) -> tuple[list[Mapping[str, str]], list[Mapping[str, str]]]:
    """Summaries of the current snapshot and those before it, then of those that a rollback has undone."""
    known = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
    current = table.current_snapshot()
    newest = (current.sequence_number or 0) if current is not None else -1
    undone = [found for found in known.values() if (found.sequence_number or 0) > newest]
    before, following = [], current
    while following is not None:
        before.append(known.pop(following.snapshot_id))
        following = known.get(following.parent_snapshot_id) if following.parent_snapshot_id is not None else None
    return _summaries(before), _summaries(undone)


def _summaries(snapshots: list[Snapshot]) -> list[Mapping[str, str]]:
    return [found.summary.additional_properties for found in snapshots if found.summary is not None]
