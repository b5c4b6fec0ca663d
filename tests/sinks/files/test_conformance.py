"""The file sink keeps the contract, in every format, partitioned and not (requirements B6, B7)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv
import pyarrow.dataset
import pytest

from onceward.sinks.files import FileSink
from onceward.testing import SinkConformance, SinkUnderTest
from support.backups import copy_of
from support.foreign import KnowsItsOwn


def published(target: Path) -> list[Path]:
    """Every file a recursive lister finds, as it finds it now."""
    return [file for file in sorted(target.rglob("*")) if file.is_file() and not file.name.startswith(".")]


def staging_of(target: Path) -> Path:
    return target.parent / f".{target.name}.onceward"


def leftovers(target: Path) -> list[str]:
    staging = staging_of(target)
    kept = {"owner.json", "committed"}
    staged = [entry.name for entry in staging.iterdir() if entry.name not in kept] if staging.exists() else []
    hidden = [entry.name for entry in target.iterdir() if entry.name.startswith(".")] if target.exists() else []
    markers = [marker.name for marker in (staging / "committed").glob("*") if not marker.name.endswith(".json")]
    return staged + hidden + markers


class Files(KnowsItsOwn, SinkConformance):
    @pytest.fixture
    def target(self, tmp_path: Path) -> Iterator[Path]:
        yield tmp_path / "events"
        # Whatever happened: what is visible came from epochs, and names its own.
        for folder in (tmp_path / "events").glob("epoch=*"):
            assert folder.name.startswith("epoch=0000")


class TestParquet(Files):
    @pytest.fixture
    def under_test(self, target: Path) -> SinkUnderTest:
        def visible() -> list[int]:
            dataset = pyarrow.dataset.dataset(target, format="parquet", partitioning="hive")
            return dataset.to_table().column("id").to_pylist() if dataset.files else []

        return SinkUnderTest(
            make=lambda: FileSink(target, partition_by=("country", "kind"), compression="snappy"),
            visible=visible,
            leftovers=lambda: leftovers(target),
            backup=lambda: copy_of(target, staging_of(target)),
            rows=lambda frame: frame.selectExpr(
                "*", "elt(1 + id % 3, 'DE', 'FR/%=', null) as country", "concat('k', id % 2) as kind"
            ),
        )


class TestJson(Files):
    @pytest.fixture
    def under_test(self, target: Path) -> SinkUnderTest:
        return SinkUnderTest(
            make=lambda: FileSink(target, format="json"),
            visible=lambda: [
                json.loads(line)["id"] for file in published(target) for line in file.read_text().splitlines()
            ],
            leftovers=lambda: leftovers(target),
            backup=lambda: copy_of(target, staging_of(target)),
        )


class TestCsv(Files):
    @pytest.fixture
    def under_test(self, target: Path) -> SinkUnderTest:
        def visible() -> list[int]:
            return [id_ for file in published(target) for id_ in pyarrow.csv.read_csv(file).column("id").to_pylist()]

        return SinkUnderTest(
            make=lambda: FileSink(target, format="csv", compression="gzip", partition_by="country"),
            visible=visible,
            leftovers=lambda: leftovers(target),
            backup=lambda: copy_of(target, staging_of(target)),
            rows=lambda frame: frame.selectExpr("*", "elt(1 + id % 2, 'DE', 'FR') as country"),
        )
