"""The Iceberg sink keeps the contract, on a real table in a SQL catalogue."""

import pytest

from onceward.testing import SinkConformance, SinkUnderTest
from support.foreign import KnowsItsOwn
from support.iceberg import Warehouse


class TestIcebergSink(KnowsItsOwn, SinkConformance):
    @pytest.fixture
    def under_test(self, warehouse: Warehouse) -> SinkUnderTest:
        def ids() -> list[int]:
            return warehouse.ids if warehouse.catalog.table_exists(warehouse.name) else []

        def staged() -> list[str]:
            if not warehouse.catalog.table_exists(warehouse.name):
                return warehouse.files
            named = warehouse.table.inspect.data_files()["file_path"].to_pylist()
            return [name for name in warehouse.files if f"file://{warehouse.path(name)}" not in named]

        return SinkUnderTest(make=warehouse.sink, visible=ids, leftovers=staged, backup=warehouse.backup)
