"""The Delta sink keeps the contract, on a real table."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from onceward.sinks.delta import DeltaSink
from onceward.testing import SinkConformance, SinkUnderTest
from support.backups import copy_of
from support.foreign import KnowsItsOwn


def ids(table: Path) -> list[int]:
    if not (table / "_delta_log").exists():
        return []
    found: list[int] = DeltaTable(table).to_pyarrow_table(columns=["id"])["id"].to_pylist()
    return found


def staged(table: Path) -> list[str]:
    """Files of ours that no log entry names."""
    ours = {str(file) for file in table.glob("onceward-*/**/*") if file.is_file()}
    if not (table / "_delta_log").exists():
        return sorted(ours)
    return sorted(ours - {uri.removeprefix("file://") for uri in DeltaTable(table).file_uris()})


class TestDeltaSink(KnowsItsOwn, SinkConformance):
    @pytest.fixture
    def under_test(self, tmp_path: Path) -> SinkUnderTest:
        table = tmp_path / "table"
        return SinkUnderTest(
            make=lambda: DeltaSink(table),
            visible=lambda: ids(table),
            leftovers=lambda: staged(table),
            backup=lambda: copy_of(table),
        )
