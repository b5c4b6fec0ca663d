"""Every stateful operator through crashes, savepoints, restores and other numbers of partitions: as if nothing was.

Events come from files, one for each epoch. What the pipeline puts out is compared, to the record, with what Spark alone
puts out when it reads the same files in one go. Repeated and late events, windows that close, rows of a join that meet
and timers that fire, some of them a restore later, show state that was lost, doubled or misplaced.
"""

import itertools
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped] # Spark's own door to Python state speaks it
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody knows
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

import onceward as ow
from onceward.epoch.state_files import PARTITIONS
from onceward.pipeline.state import Backend, settings_of
from support import outputs
from support.runs import crash, run
from support.tiers import witness_of

pytestmark = pytest.mark.slow

FILE = "tests/pipeline/test_operators.py"
SCHEMA = "key string, n long, at timestamp"
BEGIN = 1_700_000_400  # where a window of ten minutes begins
STEP_S = 600  # from one file to the next
WATERMARK = "10 minutes"
ONLY_WITH_INPUT = {"spark.sql.streaming.noDataMicroBatches.enabled": "false"}  # the same epochs, whoever stops when


class Visits(StatefulProcessor):
    """A value, a list and a map for each key, and a timer that closes a key which has not been seen for a while."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._total = handle.getValueState("total", "n long")
        self._seen = handle.getListState("seen", "n long")
        self._thirds = handle.getMapState("thirds", "third long", "many long")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        total = self._total.get()[0] if self._total.exists() else 0
        newest = 0
        for frame in rows:
            newest = max(newest, int(frame["at"].max().timestamp()))
            for number in map(int, frame["n"]):
                total += number
                self._seen.appendValue((number,))
                third = (number % 3,)
                before = self._thirds.getValue(third)[0] if self._thirds.containsKey(third) else 0
                self._thirds.updateValue(third, (before + 1,))
        self._total.update((total,))
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer((newest + STEP_S // 2) * 1000)
        yield self._told(key, "open")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002, N802, N803
        yield self._told(key, f"closed at {expiredTimerInfo.getExpiryTimeInMs()}")
        for state in (self._total, self._seen, self._thirds):
            state.clear()

    def _told(self, key: Any, word: str) -> pd.DataFrame:
        seen = sorted(number for (number,) in self._seen.get())
        thirds = sorted((third[0], many[0]) for third, many in self._thirds.iterator())
        return pd.DataFrame({"key": [key[0]], "told": [f"{word}: {self._total.get()[0]} {seen} {thirds}"]})

    def close(self) -> None:
        """Nothing is held."""


def windowed(events: DataFrame) -> DataFrame:
    return events.groupBy(F.window("at", "10 minutes"), "key").agg(
        F.sum("n").alias("total"), F.count("*").alias("many")
    )


def deduplicated(events: DataFrame) -> DataFrame:
    return events.dropDuplicates(["key", "n", "at"])


def deduplicated_within(events: DataFrame) -> DataFrame:
    return events.dropDuplicatesWithinWatermark(["key", "n"])


def joined(events: DataFrame) -> DataFrame:
    """Even numbers with odd ones of the same key that are at most eight minutes away, an epoch before or after."""
    left = events.where("n % 2 = 0").alias("a")
    right = events.where("n % 2 = 1").alias("b")
    near = "a.key = b.key and b.at between a.at - interval 8 minutes and a.at + interval 8 minutes"
    return left.join(right, F.expr(near)).select(
        "a.key", "a.n", F.col("b.n").alias("m"), "a.at", F.col("b.at").alias("then")
    )


def own(events: DataFrame) -> DataFrame:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call] # workers have no tests
    return events.groupBy("key").transformWithStateInPandas(Visits(), "key string, told string", "update", "eventTime")


@dataclass(frozen=True)
class Case:
    """An operator, the numbers of partitions that its state goes through, and where its driver dies on the way."""

    query: Callable[[DataFrame], DataFrame]
    widths: tuple[int, int, int]
    dies_at: tuple[str, str]  # before the first savepoint, and after the first restore
    backend: Backend = "rocksdb"
    mode: str = "append"


CASES = {
    "windows": Case(windowed, (1, 2, 3), ("written", "decided")),
    "windows-that-update": Case(windowed, (2, 3, 2), ("decided", "recorded"), "hashmap", "update"),
    "duplicates": Case(deduplicated, (1, 2, 3), ("committed", "voted"), "hashmap"),
    "duplicates-within-the-watermark": Case(deduplicated_within, (5, 6, 2), ("recorded", "written")),
    "join": Case(joined, (6, 2, 5), ("voted", "committed")),
    "join-in-the-heap": Case(joined, (1, 2, 3), ("decided", "recorded"), "hashmap"),
    "state-of-ones-own": Case(own, (1, 2, 3), ("decided", "written"), mode="update"),
    "state-of-ones-own-shrinking": Case(own, (6, 2, 3), ("written", "recorded"), mode="update"),
}


def test_the_cases_go_through_every_change_of_width_and_both_backends() -> None:
    """E7: in `make test`, where not every case is."""
    here = [case for name, case in CASES.items() if witness_of(f"{FILE}::test_operators[{name}]") is None]
    found = {pair for case in here for pair in itertools.pairwise(case.widths)}
    assert found == {(1, 2), (2, 3), (2, 5), (5, 6), (6, 2)}
    assert {case.backend for case in here} == {"rocksdb", "hashmap"}
    assert {case.query for case in here} == {case.query for case in CASES.values()}


def feed(folder: Path, number: int) -> None:
    """The file of one epoch: new events, the newest of the file before once more, and one that is far too late."""
    events = [*_events(number), *_events(number - 1)[-12:], *_events(number - 3)[:1]]
    columns = {
        "key": [key for key, _, _ in events],
        "n": [n for _, n, _ in events],
        "at": pa.array([at * 1_000_000 for _, _, at in events], pa.timestamp("us", "UTC")),
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{number:04d}.parquet"
    pq.write_table(pa.table(columns), file)
    os.utime(file, (number + 1, number + 1))  # the source reads the oldest first


def _events(number: int) -> list[tuple[str, int, int]]:
    """Of seven keys that are always there, and of four that only this file has."""
    if number < 0:
        return []
    begin = BEGIN + number * STEP_S
    lasting = [(f"k{it % 7}", number * 31 + it * 3, begin + it * 28) for it in range(21)]
    return [(f"once-{number}-{it}", number * 5 + it, begin + it) for it in range(4)] + lasting


class Job:
    """One case: as a pipeline whose life is full of trouble, and as a plain query of Spark."""

    def __init__(self, spark: SparkSession, case: Case, name: str, folder: Path) -> None:
        self.spark, self.case, self.name, self.folder = spark, case, name, folder
        self.out, self.fed = outputs.files(folder, 10 << 20), 0

    def feed(self, count: int) -> None:
        for number in range(self.fed, self.fed + count):
            feed(self.folder / "in", number)
        self.fed += count

    def rows(self) -> DataFrame:
        read = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "in"))
        return self.case.query(read.withWatermark("at", WATERMARK))

    def pipeline(self) -> ow.Pipeline:
        pipeline = ow.Pipeline(
            self.name,
            home=self.folder / "home",
            source=self.rows(),
            output_mode=self.case.mode,
            state=ow.State(self.case.backend),
        )
        return pipeline.to(eval(self.out.text, {"ow": ow}), rows=_as_text)

    def undisturbed(self) -> list[str]:
        found: list[str] = []
        writer = self.rows().writeStream.outputMode(self.case.mode).trigger(availableNow=True)
        writer = writer.foreachBatch(lambda batch, _: found.extend(row[0] for row in _as_text(batch).collect()))
        query = writer.option("checkpointLocation", str(self.folder / "undisturbed")).start()
        assert query.awaitTermination(120)
        return sorted(found)


def _as_text(batch: DataFrame) -> DataFrame:
    return batch.select(F.to_json(F.struct(*batch.columns)).alias("value"))


@pytest.fixture
def only_with_input(spark: SparkSession) -> Iterator[None]:
    with settings_of(spark, ONLY_WITH_INPUT):
        yield


@pytest.mark.usefixtures("only_with_input")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_operators_results_are_those_of_an_undisturbed_run(
    spark: SparkSession, name: str, tmp_path: Path, crash_at: Callable[..., None], case: Case
) -> None:
    """E1, E6, E7: crashed, saved, restored wider or narrower, crashed, saved, and restored at a third width."""
    job = Job(spark, case, name, tmp_path)
    first, second, third = case.widths
    job.feed(2)
    crash_at(case.dies_at[0])
    with settings_of(spark, {PARTITIONS: str(first)}):
        crash(job.pipeline())
    crash_at(None)
    place = run(job.pipeline()).savepoint()
    job.feed(2)
    crash_at(case.dies_at[1])
    crash(job.pipeline(), from_savepoint=place, partitions=second)
    crash_at(None)
    place = run(job.pipeline()).savepoint()
    job.feed(2)
    run(job.pipeline(), from_savepoint=place, partitions=third)
    expected = job.undisturbed()
    assert sorted(job.out.values()) == expected
    assert job.out.leftovers() == []
    if case.query is own:
        assert len([row for row in expected if "closed at" in row]) == 16  # each in an epoch after the next
