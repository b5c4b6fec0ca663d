"""A pipeline's state as a DataFrame, from its home or from a savepoint: Spark's own reader, told where to look.

It reads the state as it was after an epoch, and changes nothing.
"""

import atexit
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from onceward.epoch import state_schemas
from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.state_files import STATE, Operator, operators
from onceward.epoch.storage import LocalStorage, Storage
from onceward.errors import ConfigurationError
from onceward.pipeline.hadoop import open_home
from onceward.pipeline.plan_classes import require_known_classes
from onceward.savepoint.manifest import CHECKPOINT, FILE

JOIN: Final = "symmetricHashJoin"
SIDES: Final = ("left", "right")
TIMERS: Final = "timers"


@dataclass(frozen=True, slots=True)
class StoredState:
    """The state of a checkpoint that somebody wants to look at."""

    place: str  # as its reader has named it
    checkpoint: Checkpoint
    operators: list[Operator]

    @classmethod
    def at(cls, place: str | Path, spark: SparkSession) -> "StoredState":
        """In a pipeline's home, or in a savepoint."""
        found = open_home(place, spark)
        if found.storage.read(FILE) is not None:
            require_known_classes(spark, found.storage, CHECKPOINT, str(place))
            checkpoint = Checkpoint(found.storage, CHECKPOINT, found.uri(CHECKPOINT))
        else:
            deed = found.deed()
            if deed is None:
                raise ConfigurationError(f"{place} is neither the home of a pipeline nor a savepoint")
            found = found.of_lineage(deed)
            checkpoint = Checkpoint.newest(found)
        return cls(str(place), _settled(found.storage, checkpoint), operators(found.storage, checkpoint.folder))

    def operator(self, number: int) -> Operator:
        for operator in self.operators:
            if operator.number == number:
                return operator
        known = ", ".join(f"{it.number} ({it.name})" for it in self.operators)
        raise ConfigurationError(
            f"{self.place} has no stateful operator {number}; "
            + (f"there are: {known}" if known else "its query keeps no state, or no epoch of it is finished")
        )

    def epoch(self, wanted: int | None) -> int:
        last = self.checkpoint.last_finished()
        if last is None:
            raise ConfigurationError(f"{self.place} has no finished epoch yet, so it has no state")
        if wanted is None:
            return last
        if not self.checkpoint.finished(wanted):
            raise ConfigurationError(
                f"{self.place} does not have the state of epoch {wanted}; the newest finished epoch is {last}, and "
                "older ones are there as long as Spark keeps them"
            )
        return wanted

    def read(self, spark: SparkSession, number: int, store: str | None, epoch: int | None) -> DataFrame:
        """The rows of one store: keys, values, and the partition that they are in."""
        operator = self.operator(number)
        _ = spark.streams  # state stores report to a coordinator, which is there from the first look at the queries
        reader = spark.read.format("statestore").option("batchId", self.epoch(epoch)).option("operatorId", number)
        for name, value in self._options(operator, store).items():
            reader = reader.option(name, value)
        return reader.load(self.checkpoint.location)

    def _options(self, operator: Operator, store: str | None) -> dict[str, str]:
        places = places_of(operator)
        if store is None and len(places) == 1:
            store = places[0]
        if store not in places and store not in operator.stores:
            problem = "keeps more than one kind of state" if store is None else f"has no state {store!r}"
            choices = " or ".join(f"store={it!r}" for it in places)
            raise ConfigurationError(f"operator {operator.number} ({operator.name}) {problem}; say {choices}")
        if operator.name == JOIN and store in SIDES:
            return {"joinSide": store}
        if operator.variables or operator.timers:
            return {"readRegisteredTimers": "true"} if store == TIMERS else {"stateVarName": str(store)}
        return {"storeName": str(store)}


def state(
    home_or_savepoint: str | Path,
    spark: SparkSession,
    operator: int = 0,
    *,
    store: str | None = None,
    epoch: int | None = None,
) -> DataFrame:
    """The state of one operator of a pipeline, as a DataFrame: `key`, `value`, `partition_id`.

    operator: Spark's number of it, from 0. store: of a join "left" or "right"; of transformWithState the name of a
    state variable, or "timers". epoch: None, the newest finished one.
    """
    return StoredState.at(home_or_savepoint, spark).read(spark, operator, store, epoch)


def places_of(operator: Operator) -> list[str]:
    """What `store=` can be for an operator."""
    if operator.name == JOIN:
        return [*SIDES]
    if operator.variables or operator.timers:
        return [*operator.variables, *([TIMERS] if operator.timers else [])]
    return [*operator.stores]


def _settled(storage: Storage, checkpoint: Checkpoint) -> Checkpoint:
    """Where Spark can read it: it names schemas by whole paths, and a savepoint may have any path and is never changed.

    So it gets a folder of links, with notes that are right; it is gone with this process.
    """
    if not any(state_schemas.misnaming(storage, checkpoint.folder, checkpoint.location)):
        return checkpoint
    if not isinstance(storage, LocalStorage):
        raise ConfigurationError(f"{checkpoint.location} is not where it was made; copy it to a local path to read it")
    origin = storage.root / checkpoint.folder
    links = Path(tempfile.mkdtemp(prefix="onceward-state-"))
    atexit.register(shutil.rmtree, links, ignore_errors=True)
    for name in ("metadata", "offsets", "commits", "sources"):
        if (origin / name).exists():
            (links / name).symlink_to(origin / name)
    for operator in (origin / STATE).iterdir():
        (links / STATE / operator.name).mkdir(parents=True)
        for part in operator.iterdir():
            if part.name == "_metadata":
                shutil.copytree(part, links / STATE / operator.name / part.name)
            else:
                (links / STATE / operator.name / part.name).symlink_to(part)
    state_schemas.follow(LocalStorage(links), ".", links.as_uri())
    return Checkpoint(LocalStorage(links), ".", links.as_uri())
