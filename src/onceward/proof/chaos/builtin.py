"""The job that `onceward prove` kills when it is given none: a running number for each key, into every sink.

The number is the query's state made visible: state that was lost, or applied twice, shows in every later row.
"""

import json
import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

import onceward as ow
from onceward.proof.chaos.places import Places

if TYPE_CHECKING:
    from onceward.epoch.contract import TwoPhaseCommitSink

IN: Final = "prove-in"
OUT: Final = "prove-out"
TABLE: Final = "prove_rows"
NAME: Final = "onceward-prove"
TOPICS: Final = {IN: 4, OUT: 4}
KEYS: Final = 64
RECORDS_PER_EPOCH: Final = 5_000
COLUMNS: Final = "id long, key long, number long"
SINKS: Final = ("kafka", "postgres", "files", "delta")


def feed(dice: random.Random) -> Iterator[tuple[str, str, str]]:
    """Topic, key and value of each event, without end."""
    number = 0
    while True:
        yield IN, str(dice.randrange(KEYS)), str(number)
        number += 1


def count(key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """Give the events of a key their running numbers."""
    rows = pd.concat(list(frames)).sort_values("offset", kind="stable")
    (before,) = state.get if state.exists else (0,)
    state.update((before + len(rows),))
    yield pd.DataFrame({"id": rows["id"], "key": key[0], "number": range(before + 1, before + len(rows) + 1)})


def numbered(spark: SparkSession, places: Places) -> DataFrame:
    """The computation, the same for every guarantee."""
    events = ow.read_kafka(spark, places.bootstrap, topics=[IN], max_records_per_epoch=RECORDS_PER_EPOCH)
    parsed = events.selectExpr(
        "cast(cast(value as string) as long) id", "cast(cast(key as string) as long) key", "offset"
    )
    return parsed.groupBy("key").applyInPandasWithState(
        count,
        outputStructType=COLUMNS,
        stateStructType="count long",
        outputMode="append",
        timeoutConf=GroupStateTimeout.NoTimeout,
    )


def as_records(rows: DataFrame) -> DataFrame:
    """For Kafka: the key stays the key, so that its rows keep their order."""
    return rows.select(
        sf.col("key").cast("string").alias("key"), sf.to_json(sf.struct("id", "key", "number")).alias("value")
    )


def build(spark: SparkSession, places: Places) -> ow.Pipeline:
    """The pipeline, with the sinks of this run."""
    pipeline = ow.Pipeline(
        NAME, home=places.folder / "home", source=numbered(spark, places), guarantee=places.guarantee
    )
    for kind in places.sinks:
        if kind == "kafka":
            pipeline.to(_sink(kind, places), rows=as_records, name=kind)
        else:
            pipeline.to(_sink(kind, places), name=kind)
    return pipeline


def decode(value: bytes | str | None) -> tuple[int, int, int]:
    """Id, key and number of an output record."""
    fields = json.loads(value or b"")
    return fields["id"], fields["key"], fields["number"]


def _sink(kind: str, places: Places) -> "TwoPhaseCommitSink":
    options: dict[str, Any] = {"small_epoch_bytes": 0} if places.over_tasks else {}
    if kind == "kafka":
        return ow.KafkaSink(places.bootstrap, topic=OUT, **options)
    if kind == "postgres":
        assert places.dsn is not None
        return ow.PostgresSink(places.dsn, table=TABLE, create=True, **options)
    if kind == "files":
        return ow.FileSink(places.folder / "files", **options)
    return ow.DeltaSink(places.folder / "delta", **options)
