"""IcebergSink: rows of each epoch become one snapshot of an Iceberg table."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onceward.epoch.contract import Owner
from onceward.errors import DependencyMissing, SinkUnreachable, TargetUnusable
from onceward.secret import remember
from onceward.sinks.iceberg.secrets import describable, redacted
from onceward.sinks.parquet.sink import LakeSink, LakeTable
from onceward.sinks.rows import SMALL_EPOCH_BYTES

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


class IcebergSink(LakeSink):
    """Appends rows to an Iceberg table, all of an epoch in one snapshot.

    catalog: properties for pyiceberg's load_catalog, with the catalogue's name as "name" ("default" without).
    table: "namespace.name".
    partition_by: columns whose values partition a table that this sink creates; of an existing one, to be checked.
    create: make the table (and its namespace) with the first rows' columns if there is none.
    properties: further properties of a table that this sink creates.
    small_epoch_bytes: up to this size an epoch is collected and written by the driver itself; 0 never.
    """

    def __init__(
        self,
        *,
        catalog: Mapping[str, str],
        table: str,
        partition_by: Sequence[str] = (),
        create: bool = True,
        properties: Mapping[str, str] | None = None,
        small_epoch_bytes: int = SMALL_EPOCH_BYTES,
    ) -> None:
        super().__init__(create=create, small_epoch_bytes=small_epoch_bytes)
        try:
            import pyiceberg  # noqa: F401 - found missing here, not in the middle of an epoch
        except ImportError as error:
            raise DependencyMissing(
                f"IcebergSink needs pyiceberg ({error}): pip install 'onceward[iceberg]'"
            ) from error
        if not all(table.split(".")) or "." not in table:
            raise TargetUnusable(f"table={table!r} is no name of a table: say 'namespace.name'")
        self.table = table
        self.partition_by = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        self.properties = dict(properties or {})
        self._properties = {key: str(value) for key, value in catalog.items()}
        remember(self._properties)
        self._catalog: Catalog | None = None

    def __repr__(self) -> str:
        return f"IcebergSink(table={self.table!r}, catalog={self._properties.get('name', 'default')!r})"

    def describe(self) -> Mapping[str, Any] | None:
        """How to make this sink again; credentials come from pyiceberg's configuration or environment then."""
        if (catalog := describable(self._properties)) is None:
            return None
        return {
            "catalog": catalog,
            "table": self.table,
            "partition_by": list(self.partition_by),
            "create": self.create,
            "properties": self.properties,
            "small_epoch_bytes": self.small_epoch_bytes,
        }

    def close(self) -> None:
        """Close the catalogue's connections."""
        if self._catalog is not None:
            self._catalog.close()

    def _connect(self, owner: Owner) -> LakeTable:
        from onceward.sinks.iceberg.table import IcebergLakeTable

        self._catalog = self._load()
        return IcebergLakeTable(self._catalog, self.table, owner, self.partition_by, self.properties, self._redacted)

    def _load(self) -> "Catalog":
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NotInstalledError

        others = {key: value for key, value in self._properties.items() if key != "name"}
        name = self._properties.get("name", "default")
        try:
            return load_catalog(name, **others)
        except (NotInstalledError, ImportError) as error:
            raise DependencyMissing(
                f"the catalogue {name!r} needs more of pyiceberg than is installed: {self._redacted(str(error))}"
            ) from None
        except (ValueError, TypeError, KeyError) as error:
            raise TargetUnusable(
                f"IcebergSink's catalog properties are not usable: {self._redacted(str(error))}"
            ) from None
        except Exception as error:  # noqa: BLE001 - every catalogue raises its own driver's errors
            raise SinkUnreachable(
                f"the catalogue {name!r} does not answer ({type(error).__name__}: {self._redacted(str(error))})"
            ) from None

    def _redacted(self, text: str) -> str:
        return redacted(text, self._properties)
