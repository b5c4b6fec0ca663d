"""An Iceberg table as another program sees it."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from onceward.sinks.iceberg import IcebergSink


@dataclass
class Warehouse:
    """A catalogue as another program sees it."""

    root: Path
    catalog: Catalog
    name: str = "ns.events"

    @property
    def properties(self) -> dict[str, str]:
        return properties_of(self.root)

    @property
    def table(self) -> Table:
        """As it is now."""
        return self.catalog.load_table(self.name)

    @property
    def ids(self) -> list[int]:
        found: list[int] = self.table.scan().to_arrow()["id"].to_pylist()
        return sorted(found)

    def contents(self, order: str = "id") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table.scan().to_arrow().sort_by(order).to_pylist()
        return found

    @property
    def files(self) -> list[str]:
        """Ours, committed or not."""
        found = [file for file in self.root.glob("lake/**/onceward-*/**/*") if file.is_file()]
        return sorted(str(file.relative_to(self.root / "lake" / "ns" / "events" / "data")) for file in found)

    def path(self, name: str) -> Path:
        return self.root / "lake" / "ns" / "events" / "data" / name

    def backup(self) -> Callable[[], None]:
        """The catalogue's entry as it is now; what this returns puts it back, as restoring the catalogue does.

        Files of the table are written once and not changed, so the entry is all that a backup has to hold.
        """
        kept = self.table.metadata_location

        def restore() -> None:
            with closing(sqlite3.connect(self.root / "catalog.db")) as database, database:
                changed = database.execute("UPDATE iceberg_tables SET metadata_location = ?", (kept,)).rowcount
            assert changed == 1

        return restore

    def sink(self, **options: Any) -> IcebergSink:
        return IcebergSink(catalog={"name": "lake", **self.properties}, table=self.name, **options)


def properties_of(root: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/lake"}
