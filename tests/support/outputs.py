"""Every kind of output as a test sees it: how a pipeline file names it, what readers see, what is left behind."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pyarrow.dataset
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

from support.judge import Kafka


@dataclass
class Output:
    """One sink of a pipeline: its source text, its visible values, and what is staged."""

    text: str
    values: Callable[[], list[str]]
    leftovers: Callable[[], list[str]]


def kafka(broker: Kafka, small: int) -> Output:
    topic = broker.topic(4)

    def open_transactions() -> list[str]:
        """The last stable offset stands before the end as long as one is open."""
        stable, ends = broker.end_offsets(topic, "read_committed"), broker.end_offsets(topic)
        return [f"{topic}-{number}: {stable[number]} of {end}" for number, end in ends.items() if stable[number] < end]

    text = f"ow.KafkaSink({broker.bootstrap!r}, topic={topic!r}, small_epoch_bytes={small})"
    return Output(text, lambda: broker.values(topic), open_transactions)


def files(folder: Path, small: int) -> Output:
    target, staging = folder / "files", folder / ".files.onceward"

    def values() -> list[str]:
        if not target.exists():
            return []
        found = pyarrow.dataset.dataset(target, format="parquet", partitioning="hive")
        return [str(value) for value in found.to_table().column("value").to_pylist()] if found.files else []

    def leftovers() -> list[str]:
        return [str(path) for path in staging.rglob("*") if path.is_file() and path.suffix != ".json"]

    return Output(f"ow.FileSink({str(target)!r}, small_epoch_bytes={small})", values, leftovers)


def postgres(dsn: str, small: int) -> Output:
    table = f"t_{uuid.uuid4().hex[:10]}"

    def values() -> list[str]:
        with psycopg.connect(dsn) as connection:
            there = connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()
            if there == (None,):
                return []
            return [value for (value,) in connection.execute(f"SELECT value FROM {table}")]

    def leftovers() -> list[str]:
        query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'onceward'"
        with psycopg.connect(dsn) as connection:
            return [name for (name,) in connection.execute(query) if name != "markers"]

    text = f"ow.PostgresSink({dsn!r}, table={table!r}, create=True, small_epoch_bytes={small})"
    return Output(text, values, leftovers)


def delta(folder: Path, small: int) -> Output:
    target = folder / "delta"

    def values() -> list[str]:
        if not DeltaTable.is_deltatable(str(target)):
            return []
        return [str(value) for value in DeltaTable(str(target)).to_pyarrow_table().column("value").to_pylist()]

    def leftovers() -> list[str]:
        known = set(DeltaTable(str(target)).file_uris()) if DeltaTable.is_deltatable(str(target)) else set()
        return [str(path) for path in target.rglob("*.parquet") if str(path) not in known]

    return Output(f"ow.DeltaSink({str(target)!r}, small_epoch_bytes={small})", values, leftovers)


def iceberg(folder: Path, small: int) -> Output:
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    (folder / "warehouse").mkdir(parents=True, exist_ok=True)

    def values() -> list[str]:
        with load_catalog("default", **catalog) as reader:
            try:
                table = reader.load_table("lake.rows")
            except NoSuchTableError:
                return []
            return [str(value) for value in table.scan().to_arrow().column("value").to_pylist()]

    def leftovers() -> list[str]:
        with load_catalog("default", **catalog) as reader:
            files = reader.load_table("lake.rows").inspect.files().column("file_path").to_pylist()
        known = {file.removeprefix("file://") for file in files}
        return [str(path) for path in (folder / "warehouse").rglob("*.parquet") if str(path) not in known]

    return Output(
        f"ow.IcebergSink(catalog={catalog!r}, table='lake.rows', small_epoch_bytes={small})", values, leftovers
    )
