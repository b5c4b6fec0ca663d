"""Homes made by hand: what Spark 4.2 and Onceward leave there, without either of them."""

import io
import json
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from onceward.epoch import deeds, query_shape
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, Entry, Ledger, SinkEntry
from onceward.epoch.query_shape import OperatorShape, QueryShape
from onceward.epoch.sealed import seal
from onceward.epoch.storage import Storage
from onceward.savepoint.creating import create
from onceward.savepoint.place import Place

LINEAGE = "0123456789abcdef"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HASHMAP = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
JOIN = ("left-keyToNumValues", "right-keyToNumValues")
NOW = "2026-01-02T03:04:05+00:00"


def now() -> str:
    return NOW


def position(epoch: int) -> str:
    return json.dumps({"events": {"0": 10 * (epoch + 1)}}, separators=(",", ":"))


def plan(epoch: int, provider: str = ROCKSDB, partitions: int = 2) -> str:
    conf = {
        "spark.sql.streaming.stateStore.providerClass": provider,
        "spark.sql.shuffle.partitions": str(partitions),
    }
    return f"v1\n{json.dumps({'batchWatermarkMs': 0, 'conf': conf})}\n{position(epoch)}"


@dataclass
class HandMade:
    """A home, and Spark's folder in it."""

    path: Path
    term: int = 1
    provider: str = ROCKSDB
    folder: str = ""  # of the lineage
    partitions: int = 2

    def __post_init__(self) -> None:
        self.home = Home.at(self.path)
        self.deed = Deed(pipeline="p", lineage=LINEAGE, guarantee="exactly-once", folder=self.folder)
        if self.folder:
            deeds.begin(self.home.storage, 1, self.deed)
        else:
            self.home.storage.replace("pipeline.json", seal(self.deed))
        self.put("metadata", '{"id":"591ba6b9"}')
        self.put("sources/0/0", "v1\n{}")
        query_shape.write(self.notes, QueryShape(sources=["kafka events"]))

    @property
    def room(self) -> Path:
        return self.path / self.folder

    @property
    def checkpoint(self) -> Path:
        return self.room / "checkpoints" / f"{self.term:06d}"

    def put(self, name: str, data: str | bytes) -> None:
        file = self.checkpoint / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data if isinstance(data, bytes) else data.encode())

    def take_over(self) -> None:
        """What a start does to the folder."""
        before = self.checkpoint
        self.term += 1
        before.rename(self.checkpoint)

    def epochs(self, *epochs: int, phase: str = DONE) -> "HandMade":
        """Planned, run, recorded, and finished in Spark's log."""
        for epoch in epochs:
            self.put(f"offsets/{epoch}", plan(epoch, self.provider, self.partitions))
            self.put(f"commits/{epoch}", 'v1\n{"nextBatchWatermarkMs":0}')
            self.record(epoch, phase)
        return self

    def record(self, epoch: int, phase: str = DONE) -> None:
        entry = Entry(
            pipeline="p",
            lineage=LINEAGE,
            term=1,
            epoch=epoch,
            phase=phase,
            positions=[position(epoch)],
            plan=plan(epoch, self.provider, self.partitions),
            sinks={"out": SinkEntry(kind="a:B", settings={"topic": "t"}, rows=10, digest="ff")},
        )
        Ledger(self.home.of_lineage(self.deed).storage, {}, LINEAGE).write(entry)

    def operator(self, number: int, name: str = "dedupe", stores: Iterable[str] = ("default",)) -> "HandMade":
        """Described as Spark describes it."""
        info = {"operatorId": number, "operatorName": name}
        known = [{"storeName": it, "numColsPrefixKey": 0, "numPartitions": self.partitions} for it in stores]
        self.put(
            f"state/{number}/_metadata/metadata", "v1\n" + json.dumps({"operatorInfo": info, "stateStoreInfo": known})
        )
        return self

    def state(self, number: int, *files: str, stores: Iterable[str] = ("default",)) -> "HandMade":
        """The same files in every store and partition; a zip shares one table."""
        for partition in range(self.partitions):
            for store in stores:
                folder = f"state/{number}/{partition}" + ("" if store == "default" else f"/{store}")
                if partition == 0:
                    self.put(f"{folder}/_metadata/schema", b"\0\2v2 a schema")
                for file in files:
                    self.put(f"{folder}/{file}", self._data(folder, file))
        return self

    def _data(self, folder: str, file: str) -> bytes:
        if not file.endswith(".zip"):
            return f"{folder}/{file} ".encode() * 50
        version = file.removesuffix(".zip")
        self.put(f"{folder}/SSTs/{version}-a.sst", f"{folder}/{version} table".encode() * 99)
        self.put(f"{folder}/logs/{version}-b.log", f"{folder}/{version} log".encode())
        return snapshot([f"{version}-a.sst"], [f"{version}-b.log"], rows=7)

    def note_shape(self) -> "HandMade":
        shape = QueryShape(sources=["kafka events"], operators=[OperatorShape(name="dedupe", keys=["value"])])
        query_shape.write(self.notes, shape)
        self.notes.replace("sources.json", b"the topics' ids")
        return self

    @property
    def notes(self) -> Storage:
        """Beside Spark's files."""
        return Checkpoint.newest(self.home.of_lineage(self.deed)).notes

    def save(self, **options: object) -> Place:
        return create(self.home, now=now, sleep=lambda _: None, **options)  # type: ignore[arg-type]


def snapshot(tables: list[str], logs: list[str], rows: int) -> bytes:
    """RocksDB's zip."""
    told = {
        "sstFiles": [{"localFileName": it, "dfsSstFileName": it, "sizeBytes": 1} for it in tables],
        "logFiles": [{"localFileName": it, "dfsLogFileName": it, "sizeBytes": 1} for it in logs],
        "numKeys": rows,
    }
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(told))
        archive.writestr("MANIFEST-000008", "…")
    return data.getvalue()


def files_of(place: Place) -> set[str]:
    """Spark's own of the checkpoint in a savepoint."""
    found = {it.removeprefix("checkpoint/") for it in place.walk("") if it.startswith("checkpoint/")}
    return {it for it in found if not it.startswith("notes/")}


def saved_home(path: Path) -> HandMade:
    """A home with two operators, ten epochs, and something of everything."""
    made = HandMade(path).epochs(*range(10)).note_shape()
    made.operator(0).state(0, "8.zip", *(f"{version}.changelog" for version in range(1, 12)))
    made.operator(1, "symmetricHashJoin", JOIN).state(1, "10.zip", stores=JOIN)
    return made
