"""What Spark notes of the state of a query: its stateful operators, and how many partitions in whose files it has."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from onceward.epoch.storage import Storage

STATE: Final = "state"
PARTITIONS: Final = "spark.sql.shuffle.partitions"  # as a plan names it
PROVIDER_CLASS: Final = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB: Final = "rocksdb"
HASHMAP: Final = "hashmap"
PROVIDERS: Final = {
    ROCKSDB: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    HASHMAP: "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful operator of a checkpoint, as Spark has numbered it."""

    number: int
    name: str
    stores: Mapping[str, int]  # with their numbers of partitions
    variables: tuple[str, ...] = ()  # state of transformWithState, by the names that its author gave
    timers: bool = False  # of transformWithState

    @classmethod
    def noted(cls, number: int, data: bytes) -> "Operator":
        """From Spark's note of it; ValueError: that is torn. KeyError or TypeError: it is something else."""
        note = json.loads(data.partition(b"\n")[2])
        properties = json.loads(note.get("operatorPropertiesJson") or "{}")
        names = [str(it["stateName"]) for it in properties.get("stateVariables", [])]
        return cls(
            number=number,
            name=str(note["operatorInfo"]["operatorName"]),
            stores={str(it["storeName"]): int(it["numPartitions"]) for it in note["stateStoreInfo"]},
            variables=tuple(sorted(name for name in names if not name.startswith("$"))),
            timers=any("Timers_" in name for name in names if name.startswith("$")),
        )


def backend_of(provider: str) -> str:
    """The backend of a provider's class; a foreign one is named by its class."""
    return next((name for name, known in PROVIDERS.items() if known == provider), provider)


def operators(storage: Storage, folder: str) -> list[Operator]:
    """The stateful operators of a checkpoint, as of its newest epoch."""
    found = []
    for number in sorted(int(name) for name in storage.names(f"{folder}/{STATE}") if name.isdigit()):
        notes = f"{folder}/{STATE}/{number}/_metadata"
        versions = sorted((name for name in storage.names(f"{notes}/v2") if name.isdigit()), key=int)
        data = storage.read(f"{notes}/v2/{versions[-1]}" if versions else f"{notes}/metadata") or b""
        try:
            found.append(Operator.noted(number, data))
        except ValueError:  # Spark was stopped before it was whole, and writes it anew
            continue
    return found
