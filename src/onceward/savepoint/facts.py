"""What a plan of Spark's and its operators' own words say about a savepoint, for its manifest."""

from collections.abc import Mapping
from typing import Final

from onceward.epoch.checkpoint import settings_of
from onceward.savepoint.manifest import CHECKPOINT, FileFacts, Operator

PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
PARTITIONS: Final = "spark.sql.shuffle.partitions"
BACKENDS: Final = {"RocksDBStateStoreProvider": "rocksdb", "HDFSBackedStateStoreProvider": "hashmap"}


def partitions_of(plan: str) -> int | None:
    """The number of partitions that the query's state has, for ever."""
    told = str(settings_of(plan).get(PARTITIONS, ""))
    return int(told) if told.isdigit() else None


def backend_of(plan: str) -> str:
    """Our word for the state store, or Spark's class."""
    provider = str(settings_of(plan).get(PROVIDER, ""))
    return BACKENDS.get(provider.rpartition(".")[2], provider)


def operators_of(
    described: Mapping[int, tuple[str, Mapping[str, int]]],
    rows: Mapping[int, int | None],
    files: Mapping[str, FileFacts],
) -> list[Operator]:
    """One for each operator that describes itself."""
    return [
        Operator(
            id=number,
            name=name,
            partitions=max(stores.values(), default=0),
            stores=sorted(stores),
            bytes=sum(it.size for path, it in files.items() if path.startswith(f"{CHECKPOINT}/state/{number}/")),
            rows=rows.get(number),
        )
        for number, (name, stores) in sorted(described.items())
    ]
