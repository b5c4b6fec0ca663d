"""Savepoints of pipelines that run: taken while epochs go on, and enough for Spark to go on from."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

import onceward as ow
from onceward.epoch import inspection
from onceward.epoch.home import Home
from onceward.savepoint.creating import create
from onceward.savepoint.keeping import find
from onceward.savepoint.manifest import load
from onceward.savepoint.place import Place
from onceward.savepoint.unpacking import unpack
from onceward.savepoint.verifying import verify
from savepoint.homes import now
from support import running
from support.driver import Driver
from support.judge import Kafka
from support.waiting import eventually

STATE = "spark.sql.streaming.stateStore."
PROVIDERS = "org.apache.spark.sql.execution.streaming.state."
FILE = """
import onceward as ow

def build(spark):
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")  # Spark clears up as eagerly as it can
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", "2")
    spark.conf.set("spark.sql.streaming.stateStore.maintenanceInterval", "1s")
    events = ow.read_kafka(spark, {bootstrap!r}, topics=[{source!r}])
    unique = events.select("value").dropDuplicates(["value"])
    return ow.Pipeline({name!r}, home={home!r}, source=unique).to(ow.KafkaSink({bootstrap!r}, topic={target!r}))
"""


def onceward(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "onceward", *arguments, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, env=dict(os.environ))
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_savepoints_are_taken_while_another_process_runs_the_pipeline(
    kafka: Kafka, drivers: Callable[[str], Driver], name: str, tmp_path: Path
) -> None:
    """E6: its epochs go on meanwhile; asked to, it finishes its epoch, ends well, and the last epoch is saved."""
    source, target, path = kafka.topic(1), kafka.topic(1), tmp_path / "home"
    driver = drivers(
        FILE.format(bootstrap=kafka.bootstrap, source=source, target=target, name=name, home=str(path))
    ).start("--json")
    fed = 0

    def feed_until(epoch: int) -> None:
        def there() -> bool:
            nonlocal fed
            assert driver.alive()
            kafka.feed(source, [(None, f"v{fed + i}") for i in range(5)] * 2)
            fed += 5
            entries = inspection.epochs(home, 1) if (path / "pipeline.json").exists() else []
            return bool(entries) and entries[-1].epoch >= epoch

        eventually(there, f"epoch {epoch}")

    home = Home.at(path)
    feed_until(3)
    for number in range(12):
        place = create(home, name=f"s{number}", now=now)
        feed_until(verify(place).epoch + 2)
    saved = [it.savepoint.epoch for it in find(home) if it.savepoint]
    assert len(set(saved)) == 12
    assert not (path / "pins").exists() or list((path / "pins").iterdir()) == []
    last = onceward("savepoint", "create", str(path), "--name", "last", "--stop")
    assert driver.result()["ended"] == "finished"
    assert last["epoch"] == inspection.epochs(home, 1)[-1].epoch
    assert verify(Place.within(home, "last")).epoch == last["epoch"]
    values = kafka.values(target)
    assert sorted(values) == sorted(f"v{i}" for i in range(len(values)))
    assert onceward("savepoint", "create", str(path), "--name", "idle", "--stop")["epoch"] == last["epoch"]


def unique(first: DataFrame, _: DataFrame) -> DataFrame:
    return first.dropDuplicates(["key"])


def counted(first: DataFrame, _: DataFrame) -> DataFrame:
    return first.groupBy("key").count().selectExpr("key", "cast(count as string) as value")


def joined(first: DataFrame, second: DataFrame) -> DataFrame:
    return first.join(second.selectExpr("key", "value as other"), "key").selectExpr("key", "other as value")


def summed(first: DataFrame, _: DataFrame) -> DataFrame:
    ones = first.selectExpr("key", "1L as number")
    return ones.groupBy("key").transformWithStateInPandas(
        running.Running(), "key string, value string", "update", "none"
    )


@pytest.fixture
def state(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Choose a state store for the queries that follow."""
    settings = (f"{STATE}providerClass", f"{STATE}rocksdb.changelogCheckpointing.enabled")
    before = {it: spark.conf.get(it) for it in settings}

    def choose(provider: str, changelog: str) -> None:
        spark.conf.set(settings[0], PROVIDERS + provider)
        spark.conf.set(settings[1], changelog)

    yield choose
    for setting, value in before.items():
        spark.conf.set(setting, value or "")


class Case(NamedTuple):
    """A query, its state store, and what it gives for the events after the savepoint."""

    query: Callable[[DataFrame, DataFrame], DataFrame]
    mode: str
    provider: str
    changelog: str
    wanted: dict[str, str]


def require_told_by_the_command(a: Path | str, b: Path | str) -> None:
    """E10: in a process of its own, whose Spark has not run a query yet."""
    told = subprocess.run(
        [sys.executable, "-m", "onceward", "savepoint", "diff", str(a), str(b)],
        capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert "1 added, 0 removed, 0 changed, 3 the same" in told.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "case",
    [
        Case(unique, "append", "RocksDBStateStoreProvider", "true", {"c": "new", "z": "after it"}),
        Case(counted, "update", "HDFSBackedStateStoreProvider", "true", {"b": "3", "c": "1", "z": "1"}),
        Case(joined, "append", "RocksDBStateStoreProvider", "false", {"b": "right"}),
        Case(summed, "update", "RocksDBStateStoreProvider", "true", {"b": "3", "c": "1", "z": "1"}),
    ],
    ids=["deduplication", "aggregation-hashmap", "join-full-snapshots", "transformWithState"],
)
def test_spark_goes_on_from_nothing_but_a_savepoint(
    spark: SparkSession, kafka: Kafka, name: str, tmp_path: Path, state: Callable[[str, str], None], case: Case
) -> None:
    """E6, E1: with its home gone and in another place, the state and the positions are those after its epoch."""
    cloudpickle.register_pickle_by_value(running)  # type: ignore[no-untyped-call] # workers have no tests
    state(case.provider, case.changelog)
    left, right, target = kafka.topic(1), kafka.topic(1), kafka.topic(1)

    def build() -> DataFrame:
        both = (ow.read_kafka(spark, kafka.bootstrap, topics=[it]) for it in (left, right))
        first, second = (it.selectExpr("cast(key as string) as key", "cast(value as string) as value") for it in both)
        return case.query(first, second)

    kafka.feed(right, [("x", "right")])
    kafka.feed(left, [("a", "old"), ("b", "old"), ("b", "old")])
    pipeline = ow.Pipeline(name, home=tmp_path / "home", source=build(), output_mode=case.mode)
    with pipeline.to(ow.KafkaSink(kafka.bootstrap, topic=target)).start() as query:
        query.process_all_available()
        kafka.feed(left, [("y", "old")])
        query.process_all_available()
        saved = query.savepoint(to=tmp_path / "it")
        kafka.feed(left, [("z", "after it")])
        query.process_all_available()
        last = query.savepoint(name="last", stop=True)
        assert not query.is_active
    place = Place.at(saved)
    assert verify(Place.at(last)).epoch == query.epochs[-1].epoch > load(place).epoch
    if case.mode == "update" and case.provider.startswith("HDFS"):
        require_told_by_the_command(saved, last)
    shutil.rmtree(tmp_path / "home")
    home, savepoint = Home.at(tmp_path / "elsewhere"), load(place)
    assert savepoint.backend == ("hashmap" if case.provider.startswith("HDFS") else "rocksdb")
    assert len(savepoint.operators) == 1
    unpack(place, savepoint, home, "restored")
    shutil.rmtree(saved)
    kafka.feed(right, [("b", "right")])
    kafka.feed(left, [("b", "new"), ("c", "new")])
    rows: dict[str, str] = {}
    writer = build().writeStream.outputMode(case.mode).option("checkpointLocation", home.uri("restored"))
    writer = writer.foreachBatch(lambda batch, _: rows.update(map(tuple, batch.collect())))
    writer.trigger(availableNow=True).start().awaitTermination(120)
    assert rows == case.wanted
