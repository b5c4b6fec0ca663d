"""Lake tables as tests see them: epochs staged and committed step by step, by drivers of several terms."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from pyspark.sql import DataFrame, SparkSession

from onceward.epoch.contract import Committable, EpochContext, Guarantee, Owner, TwoPhaseCommitSink
from onceward.sinks.parquet.sink import Entry, LakeSink, Reading
from onceward.sinks.parquet.staging import Staging
from support.waiting import eventually

S = TypeVar("S", bound=LakeSink)

# One column of each type that Spark can put into a lake table, as SQL over a column `id`.
TYPES = {
    "flag": "id % 2 = 0",
    "small": "cast(id as byte)",
    "short": "cast(id as short)",
    "number": "cast(id as int)",
    "amount": "cast(id as decimal(9, 2)) / 100",
    "large": "cast(cast(id as decimal(38, 10)) / 7 as decimal(38, 10))",
    "single": "cast(id / 3 as float)",
    "double": "id / 3",
    "text": "concat('text – “ü” ', id)",
    "bytes": "cast(concat('b', id) as binary)",
    "day": "date_add(date'2024-02-28', cast(id as int))",
    "moment": "timestamp'2024-03-31 00:59:59.123456 UTC' + make_interval(0, 0, 0, 0, 0, cast(id as int))",
    "local": "timestamp_ntz'2024-03-31 02:30:00.000001'",
    "list": "array(id, null, id + 1)",
    "texts": "array(concat('x', id))",
    "structure": "named_struct('a', id, 'b', named_struct('c', cast(id as string), 'd', timestamp_seconds(id)))",
    "structures": "array(named_struct('a', id, 'b', 'x'), null)",
    "mapping": "map(concat('k', id), id, 'other', null)",
    "mappings": "map(cast(id as int), named_struct('a', array(id)))",
}


def of_all_types(spark: SparkSession, rows: int = 5) -> DataFrame:
    """Rows with values in every column, and one row of nulls."""
    present = spark.range(rows).selectExpr("id", *(f"{value} as `{name}`" for name, value in TYPES.items()))
    nulls = spark.range(rows, rows + 1).selectExpr(
        "id",
        *(f"cast(null as {field.dataType.simpleString()}) as `{field.name}`" for field in present.schema.fields[1:]),
    )
    return present.union(nulls)


@dataclass
class Lake(Generic[S]):
    """One table, and the drivers of one pipeline that write to it."""

    make: Callable[[], S]
    spark: SparkSession
    lineage: str = "lineage-1"
    opened: list[S] = field(default_factory=list)

    def driver(
        self, term: int = 1, lineage: str | None = None, guarantee: Guarantee = Guarantee.EXACTLY_ONCE, sink: str = "s"
    ) -> S:
        """A sink object of its own, as each process has."""
        made = self.make()
        made.open(Owner(pipeline="p", lineage=lineage or self.lineage, term=term, guarantee=guarantee, sink=sink))
        self.opened.append(made)
        return made

    def frame(self, ids: range) -> DataFrame:
        return self.spark.range(ids.start, ids.stop, 1, 2).selectExpr("id", "concat('text ', id) as text")

    def stage(self, driver: S, epoch: int, rows: range | DataFrame, attempt: int = 1) -> Committable:
        """Everything up to the vote, over tasks; the committable as it comes back from the ledger."""
        context = EpochContext(epoch=epoch, attempt=attempt)
        driver.begin(context)
        outcome = driver.write(context, self.frame(rows) if isinstance(rows, range) else rows)
        decoded: dict[str, Any] = json.loads(json.dumps(driver.pre_commit(context, outcome)))
        return decoded

    def commit(self, driver: S, epoch: int, committable: Committable) -> None:
        driver.commit(EpochContext(epoch=epoch), committable)

    def run(self, driver: S, epoch: int, rows: range | DataFrame) -> Committable:
        committable = self.stage(driver, epoch, rows)
        self.commit(driver, epoch, committable)
        return committable

    def close(self) -> None:
        for driver in self.opened:
            driver.close()


def reading_of(driver: LakeSink) -> Reading:
    """The first half of a commit: what it reads. The test may then do what it likes before the second half."""
    return driver._read()


def attempt(driver: LakeSink, reading: Reading, epoch: int, committable: Committable) -> bool:
    """The second half of a commit, from what was read earlier."""
    files = Staging(reading.place, driver.owner).files_of(epoch, committable)
    return reading.attempt(Entry(files=files, facts=committable["facts"], epoch=epoch))


PROCESS = """
import json, sys, time
from pathlib import Path
from onceward.epoch.contract import EpochContext, Guarantee, Owner
from onceward.errors import SinkUnreachable
from importlib import import_module
told = json.loads(sys.stdin.read())
module, _, kind = told["kind"].partition(":")
sink = getattr(import_module(module), kind)(**told["settings"])
sink.open(Owner(**told["owner"], guarantee=Guarantee.EXACTLY_ONCE))
print("ready", flush=True)
while not Path(told["go"]).exists():
    time.sleep(0.001)
for left in reversed(range(10)):  # the coordinator asks again, too
    try:
        sink.commit(EpochContext(epoch=told["epoch"]), told["committable"])
        break
    except SinkUnreachable:
        if not left:
            raise
sink.close()
"""


@contextmanager
def committing_processes(
    driver: TwoPhaseCommitSink, epoch: int, committable: Committable, terms: list[int], go: Path
) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are about to commit the same epoch: they start when the file `go` is there."""
    owner = {"pipeline": driver.owner.pipeline, "lineage": driver.owner.lineage, "sink": driver.owner.sink}
    told: Mapping[str, Any] = {
        "kind": f"{type(driver).__module__}:{type(driver).__name__}",
        "settings": driver.describe(),
        "committable": committable,
        "epoch": epoch,
        "go": str(go),
    }
    running = []
    try:
        for term in terms:
            process = subprocess.Popen(
                [sys.executable, "-c", PROCESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            running.append(process)
            assert process.stdin is not None
            process.stdin.write(json.dumps({**told, "owner": {**owner, "term": term}}))
            process.stdin.close()
        for process in running:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        yield running
    finally:
        for process in running:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def all_end_well(processes: list[subprocess.Popen[str]]) -> None:
    eventually(lambda: all(process.poll() is not None for process in processes), "every process ends")
    assert [process.returncode for process in processes] == [0] * len(processes)
