"""Where a query keeps its state, and how it is written down: Spark's settings, for one query alone."""

import importlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pyspark.sql import SparkSession

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.query_shape import QueryShape
from onceward.epoch.state_files import HASHMAP, PROVIDER_CLASS, PROVIDERS, ROCKSDB, backend_of
from onceward.errors import ConfigurationError

Backend: TypeAlias = Literal["rocksdb", "hashmap"]
Snapshots: TypeAlias = Literal["incremental", "full"]
INCREMENTAL: Final = "incremental"
FULL: Final = "full"
CHANGELOG: Final = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
STATE_MESSAGES: Final = "pyspark.sql.streaming.proto.StateMessage_pb2"
DEFAULTS: Final[Mapping[str, Snapshots]] = {ROCKSDB: INCREMENTAL, HASHMAP: FULL}

_starting = threading.RLock()  # a session's settings are changed for the moment in which a query copies them


@dataclass(frozen=True, slots=True)
class State:
    """How a pipeline keeps its state.

    backend: "rocksdb" (on local disk, larger than memory) or "hashmap" (in the JVM's heap, quick while it is small).
    snapshots: "incremental" writes each epoch's changes and a snapshot now and then; "full" makes each epoch's snapshot
        complete. None: what the backend does best.
    """

    backend: Backend = ROCKSDB
    snapshots: Snapshots | None = None

    def __post_init__(self) -> None:
        if self.backend not in PROVIDERS:
            raise ConfigurationError(f"state backend {self.backend!r} is not known; choose 'rocksdb' or 'hashmap'")
        if self.snapshots not in {None, INCREMENTAL, FULL}:
            raise ConfigurationError(f"snapshots {self.snapshots!r} is not known; choose 'incremental' or 'full'")
        if self.backend == HASHMAP and self.snapshots == INCREMENTAL:
            raise ConfigurationError(
                "the state backend 'hashmap' has no incremental snapshots: it holds the state as one map in the heap, "
                "and a snapshot of it is the whole map. Choose ow.State('rocksdb', snapshots='incremental'), or leave "
                "snapshots out"
            )

    @property
    def kind(self) -> Snapshots:
        """Which snapshots it takes."""
        return self.snapshots or DEFAULTS[self.backend]

    def settings(self) -> dict[str, str]:
        """In Spark's words."""
        settings = {PROVIDER_CLASS: PROVIDERS[self.backend]}
        if self.backend == ROCKSDB:
            settings[CHANGELOG] = "true" if self.kind == INCREMENTAL else "false"
        return settings


def effective(state: State | None, spark: SparkSession) -> tuple[str, str]:
    """Backend and snapshots of a query that starts now: what the pipeline says, else what its session does."""
    if state is not None:
        return state.backend, state.kind
    backend = backend_of(str(spark.conf.get(PROVIDER_CLASS)))
    changes = backend == ROCKSDB and str(spark.conf.get(CHANGELOG)).lower() == "true"
    return backend, INCREMENTAL if changes else FULL


def require_same_backend(state: State | None, checkpoint: Checkpoint, location: str) -> None:
    """Spark goes on with the backend that a checkpoint began with, and says nothing: so it is said here."""
    planned = checkpoint.planned()
    provider = checkpoint.settings(planned).get(PROVIDER_CLASS) if planned is not None else None
    if state is None or provider is None or provider == PROVIDERS[state.backend]:
        return
    raise ConfigurationError(
        f"{location} keeps its state in {backend_of(provider)!r}, and the pipeline asks for {state.backend!r}. State "
        "changes its backend through a savepoint: with the pipeline as it was, `onceward savepoint create "
        f"{location} --stop`; then, with state=ow.State({state.backend!r}), `onceward run FILE.py --from SAVEPOINT`."
    )


def require_protobuf(shape: QueryShape) -> None:
    """Spark's Python workers speak it about state of one's own; without it the first epoch would end in a crash."""
    if not any(operator.name == "TransformWithState" for operator in shape.operators):
        return
    try:
        importlib.import_module(STATE_MESSAGES)
    except Exception as error:  # missing, or too old for what PySpark brings: it names the versions itself
        raise ConfigurationError(
            "transformWithState needs the package protobuf, which PySpark does not bring: pip install "
            f"'onceward[state]', here and wherever Spark's Python workers run ({type(error).__name__}: {error})"
        ) from error


@contextmanager
def settings_of(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings for a query that starts in here and copies them; the session has its own again afterwards."""
    with _starting:
        before = {name: spark.conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, old in before.items():
                if old is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, old)
