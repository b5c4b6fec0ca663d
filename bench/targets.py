"""Sinks of every kind with targets of their own, and the numbers of the records that are in a target."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray
from pyspark.sql import DataFrame

import onceward as ow
from onceward.epoch.contract import TwoPhaseCommitSink

KINDS = ("files", "postgres", "delta", "iceberg")
COLUMNS = (
    "cast(key as string) as id",
    "cast(cast(substr(value, 1, 10) as string) as long) as number",
    "cast(value as string) as value",
    "timestamp as at",
    "cast(partition as int) as place",
)


def catalog(folder: Path, name: str) -> dict[str, str]:
    (folder / "warehouse").mkdir(exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/{name}.db", "warehouse": f"file://{folder}/warehouse"}


def sink(kind: str, name: str, folder: Path, bootstrap: str, dsn: str) -> TwoPhaseCommitSink:
    """`name`: a topic that is there, or what the target is to be called."""
    makers: dict[str, Callable[[], TwoPhaseCommitSink]] = {
        "kafka": lambda: ow.KafkaSink(bootstrap, topic=name),
        "files": lambda: ow.FileSink(folder / f"files-{name}"),
        "postgres": lambda: ow.PostgresSink(dsn, table=table(name), create=True),
        "delta": lambda: ow.DeltaSink(folder / f"delta-{name}"),
        "iceberg": lambda: ow.IcebergSink(catalog=catalog(folder, name), table=f"bench.{table(name)}"),
    }
    return makers[kind]()


def table(name: str) -> str:
    return f"t_{name.replace('-', '_')}"


def rows_for(kind: str) -> Callable[[DataFrame], DataFrame]:
    if kind == "kafka":
        return lambda batch: batch.select("key", "value")
    return lambda batch: batch.selectExpr(*COLUMNS)


def numbers(kind: str, name: str, folder: Path, dsn: str) -> NDArray[np.int64]:
    """Of every visible record, read without Onceward."""
    if kind == "files":
        files = [str(it) for it in (folder / f"files-{name}").rglob("*.parquet")]
        return np.asarray(ds.dataset(files, format="parquet").to_table(columns=["number"])["number"])
    if kind == "delta":
        from deltalake import DeltaTable

        return np.asarray(DeltaTable(folder / f"delta-{name}").to_pyarrow_table(columns=["number"])["number"])
    if kind == "iceberg":
        from pyiceberg.catalog import load_catalog

        opened = load_catalog("default", **catalog(folder, name)).load_table(f"bench.{table(name)}")
        return np.asarray(opened.scan(selected_fields=("number",)).to_arrow()["number"])
    import psycopg

    with psycopg.connect(dsn) as connection:
        rows = connection.execute(f"select number from {table(name)}").fetchall()
    return np.array([row[0] for row in rows], np.int64)


def wrong(found: NDArray[np.int64], records: int) -> list[str]:
    if len(found) == records and np.array_equal(np.sort(found), np.arange(records)):
        return []
    return [f"{len(found):,} rows with {len(np.unique(found)):,} different numbers, not {records:,}"]
