"""Rewriting the state of a checkpoint that nobody drives: for another number of partitions, or another backend.

Each rewrite is an epoch of its own, without input: the checkpoint's newest epoch becomes N + 1, with the state of N.
Spark can change the number of partitions itself, but only of RocksDB. From one backend to the other it has no way; its
reader and its writer of raw state serve here, partition by partition, in the driver.
Only for a private copy of a checkpoint: a rewrite that is interrupted leaves half of it.
"""
# ruff: noqa: FBT003, SLF001 - Java's flags have no names; PySpark has no public way to these

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from onceward.epoch import state_schemas
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import parse_home
from onceward.epoch.state_files import HASHMAP, PARTITIONS, PROVIDER_CLASS, PROVIDERS, ROCKSDB, backend_of, operators
from onceward.epoch.storage import LocalStorage, Storage
from onceward.errors import ConfigurationError, HomeMismatch
from onceward.pipeline.hadoop import HadoopStorage
from onceward.pipeline.state import Backend
from onceward.savepoint.manifest import Savepoint

JOIN_FORMAT: Final = "spark.sql.streaming.join.stateFormatVersion"
FAMILY: Final = "default"  # the one column family that both backends know
FILES: Final = {ROCKSDB: (".zip", ".changelog", ".sst", ".log"), HASHMAP: (".delta", ".snapshot")}


def rewritten(spark: SparkSession, location: str, saved: Savepoint, partitions: int | None, backend: str) -> int:
    """A savepoint's checkpoint with as many partitions, and in the backend; the number of the epoch that has it."""
    epoch = repartition(spark, location, partitions) if partitions is not None else saved.epoch
    return convert(spark, location, epoch, cast("Backend", backend))


def repartition(spark: SparkSession, location: str, partitions: int) -> int:
    """The state in this many partitions; the number of the epoch that has it."""
    copy = _Copy(spark, location)
    state_schemas.follow(copy.storage, ".", location)
    epoch = copy.last_epoch()
    settings = copy.checkpoint.settings(epoch)
    if int(settings[PARTITIONS]) == partitions or not operators(copy.storage, "."):
        return epoch
    on_heap = backend_of(settings[PROVIDER_CLASS]) == HASHMAP
    if on_heap:  # Spark's own way knows RocksDB only
        convert(spark, location, epoch, ROCKSDB)
    try:
        manager = cast("Any", spark)._jsparkSession.streamingCheckpointManager()
        manager.repartition(location, partitions, True)  # a last epoch that is not committed is refused
    except Py4JJavaError as error:
        raise _refused(location, error) from error
    copy.forget_partitions(partitions)
    epoch = copy.last_epoch()
    return convert(spark, location, epoch, HASHMAP) if on_heap else epoch


def convert(spark: SparkSession, location: str, epoch: int, backend: Backend) -> int:
    """The state of `epoch`, the newest one, in another backend; the number of the epoch that has it."""
    copy = _Copy(spark, location)
    if copy.last_epoch() != epoch:
        raise HomeMismatch(f"{location} ends at epoch {copy.last_epoch()}, not at {epoch}")
    before = backend_of(copy.checkpoint.settings(epoch)[PROVIDER_CLASS])
    if before == backend:
        return epoch
    if before not in PROVIDERS:
        raise ConfigurationError(f"{location} keeps its state in {before}, which Onceward cannot convert")
    stores = list(copy.stores(epoch))
    for store in stores:
        store.require_convertible()
    copy.plan_like(epoch, {PROVIDER_CLASS: PROVIDERS[backend]})
    try:
        for store in stores:
            for partition in range(int(copy.checkpoint.settings(epoch)[PARTITIONS])):
                store.rewrite(partition, epoch, to_heap=backend == HASHMAP)
    except Py4JJavaError as error:
        raise _refused(location, error) from error
    copy.commit_like(epoch)
    copy.remove_files_of(before)
    return epoch + 1


class _Copy:
    """A checkpoint, by its logs and by what the JVM says of it."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        place = parse_home(location)
        self.location = location
        self.storage: Storage = LocalStorage(place) if isinstance(place, Path) else HadoopStorage(spark, place)
        self.checkpoint = Checkpoint(self.storage, ".", location)
        self.session = cast("Any", spark)._jsparkSession
        self.session.streams()  # providers report to a coordinator, which is there from the first look at the queries
        self.jvm = cast("Any", spark)._jvm
        self.spark_state = self.jvm.org.apache.spark.sql.execution.streaming.state
        self.hadoop = self.session.sessionState().newHadoopConf()

    def last_epoch(self) -> int:
        last = self.checkpoint.last_finished()
        if last is None or last != self.checkpoint.planned():
            raise HomeMismatch(f"{self.location}: its last epoch is not committed, or there is none")
        return last

    def plan_like(self, epoch: int, settings: dict[str, str]) -> None:
        """The next epoch's plan: the same positions, other settings."""
        lines = (self.storage.read(f"./offsets/{epoch}") or b"").decode().splitlines()
        metadata = json.loads(lines[1])
        metadata["conf"] |= settings
        lines[1] = json.dumps(metadata, separators=(",", ":"))
        self.storage.replace(f"./offsets/{epoch + 1}", "\n".join(lines).encode())

    def commit_like(self, epoch: int) -> None:
        self.storage.replace(f"./commits/{epoch + 1}", self.storage.read(f"./commits/{epoch}") or b"")

    def store_conf(self, epoch: int) -> Any:
        """How Spark would open a store of the epoch."""
        line = (self.storage.read(f"./offsets/{epoch}") or b"").decode().splitlines()[1]
        logs = self.jvm.org.apache.spark.sql.execution.streaming.checkpointing
        conf = self.session.sessionState().conf().clone()
        logs.OffsetSeqMetadata.setSessionConf(logs.OffsetSeqMetadata.apply(line), conf)
        return self.spark_state.StateStoreConf(conf, self.jvm.PythonUtils.toScalaMap({}))

    def stores(self, epoch: int) -> Iterator["_Store"]:
        metadata = self.jvm.org.apache.spark.sql.execution.datasources.v2.state.metadata
        reader = metadata.StateMetadataPartitionReader(self.location, self.serializable(), epoch)
        for operator in reader.allOperatorStateMetadata():
            found = operator.stateStoresMetadata()
            for index in range(found.size()):
                yield _Store(self, operator, found.apply(index), epoch)

    def serializable(self) -> Any:
        return self.jvm.org.apache.spark.util.SerializableConfiguration(self.hadoop)

    def option(self, value: Any) -> Any:
        return self.jvm.scala.Option.apply(value)

    def forget_partitions(self, partitions: int) -> None:
        """Spark leaves those that are too many, and the number in the notes of the older kind: readers take both."""
        for operator in filter(str.isdigit, self.storage.names("./state")):
            for partition in filter(str.isdigit, self.storage.names(f"./state/{operator}")):
                if int(partition) >= partitions:
                    self.storage.clear(f"./state/{operator}/{partition}")
            name = f"./state/{operator}/_metadata/metadata"
            version, _, body = (self.storage.read(name) or b"").partition(b"\n")
            if body:
                note = json.loads(body)
                for store in note["stateStoreInfo"]:
                    store["numPartitions"] = partitions
                self.storage.remove(f"./state/{operator}/_metadata/.metadata.crc")
                self.storage.replace(name, version + b"\n" + json.dumps(note, separators=(",", ":")).encode())

    def remove_files_of(self, backend: str) -> None:
        """What the old backend has left; the new one would only warn of it."""
        for name in self.storage.walk("./state"):
            if name.endswith(FILES[backend]) and not {part[0] for part in name.split("/")} & {".", "_"}:
                self.storage.remove(f"./state/{name}")


class _Store:
    """One store of one operator: a stream-stream join has four, the others one."""

    def __init__(self, copy: _Copy, operator: Any, store: Any, epoch: int) -> None:
        self.copy = copy
        self.operator = int(operator.operatorInfo().operatorId())
        self.kind = str(operator.operatorInfo().operatorName())
        self.name = str(store.storeName())
        self.prefix = int(store.numColsPrefixKey())
        self.joins = copy.option(int(copy.checkpoint.settings(epoch).get(JOIN_FORMAT, "2")))
        self._versions = operator.version()

    def require_convertible(self) -> None:
        if self._versions != 1:
            raise ConfigurationError(
                f"operator {self.operator} ({self.kind}) keeps several kinds of state, which only 'rocksdb' can: "
                "transformWithState has no other backend"
            )

    def rewrite(self, partition: int, epoch: int, *, to_heap: bool) -> None:
        """From the files of `epoch` to those of the next one."""
        copy, state = self.copy, self.copy.spark_state
        schema = self._schema()
        source = copy.jvm.org.apache.spark.sql.execution.datasources.v2.state
        options = {
            "path": copy.location,
            "batchId": str(epoch),
            "operatorId": str(self.operator),
            "storeName": self.name,
            "_readAllColumnFamilies": "true",
        }
        read = source.StateSourceOptions.apply(copy.session, copy.hadoop, copy.jvm.java.util.HashMap(options))
        families = copy.jvm.PythonUtils.toSeq([schema]).toSet()
        variables = copy.jvm.PythonUtils.toSeq([]).toList()
        none = copy.jvm.scala.Option.empty()
        reader = source.StatePartitionAllColumnFamiliesReader(
            copy.store_conf(epoch),
            copy.serializable(),
            source.StateStoreInputPartition(partition, _random_id(copy.jvm), read),
            copy.jvm.org.apache.spark.sql.types.StructType(),
            schema.keyStateEncoderSpec().get(),
            copy.option(schema),
            none,
            source.AllColumnFamiliesReaderInfo(families, variables, self.kind, self.joins),
        )
        writer = state.StatePartitionAllColumnFamiliesWriter(
            copy.store_conf(epoch + 1),
            copy.hadoop,
            partition,
            copy.location,
            self.operator,
            self.name,
            epoch + 1,
            copy.jvm.PythonUtils.toScalaMap({FAMILY: state.StatePartitionWriterColumnFamilyInfo(schema, False)}),
            none,
        )
        if to_heap:
            self._begin_empty(writer, schema, epoch + 1)
        try:
            writer.write(reader.iter())
        finally:
            reader.close()

    def _schema(self) -> Any:
        """Of the store's rows, from the file beside its first partition."""
        copy, state = self.copy, self.copy.spark_state
        store = state.StateStoreId(f"{copy.location}/state", self.operator, 0, self.name)
        provider = state.StateStoreProviderId(store, _random_id(copy.jvm))
        none, empty = copy.jvm.scala.Option.empty(), copy.jvm.PythonUtils.toSeq([]).toList()
        checker = state.StateSchemaCompatibilityChecker(provider, copy.hadoop, empty, none, False)
        found = checker.readSchemaFile().head()
        key = found.keySchema()
        spec = (
            state.PrefixKeyScanStateEncoderSpec(key, self.prefix)
            if self.prefix
            else state.NoPrefixKeyStateEncoderSpec(key)
        )
        return state.StateStoreColFamilySchema(
            found.colFamilyName(), 0, key, 0, found.valueSchema(), copy.option(spec), none
        )

    def _begin_empty(self, writer: Any, schema: Any, version: int) -> None:
        """Spark's writer asks for an empty store of a version. The heap's provider has none, so it is given one."""
        state = self.copy.spark_state
        none = self.copy.jvm.scala.Option.empty()
        empty = state.HDFSBackedStateStoreMap.create(schema.keySchema(), self.prefix, none)
        kind = getattr(state, "HDFSBackedStateStoreProvider$HDFSBackedStateStore")
        store = kind(writer.provider(), version, empty, True)  # with a snapshot
        field = writer.getClass().getDeclaredField("stateStore")
        made = writer.getClass().getDeclaredField("bitmap$0")
        for each in (field, made):
            each.setAccessible(True)
        field.set(writer, store)
        made.setByte(writer, 3)  # both of its lazy values are there


def _random_id(jvm: Any) -> Any:
    return jvm.java.util.UUID.fromString(str(uuid.uuid4()))


def _refused(location: str, error: Py4JJavaError) -> ConfigurationError:
    java = error.java_exception
    while (cause := java.getCause()) is not None:
        java = cause
    return ConfigurationError(f"{location}: Spark cannot rewrite its state: {java.toString()}")
