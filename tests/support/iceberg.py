"""An Iceberg table as another program sees it."""

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

    def sink(self, **options: Any) -> IcebergSink:
        return IcebergSink(catalog={"name": "lake", **self.properties}, table=self.name, **options)


def properties_of(root: Path) -> dict[str, str]:
    return {"type": "sql", "uri": f"sqlite:///{root}/catalog.db", "warehouse": f"file://{root}/lake"}
