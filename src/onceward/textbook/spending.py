"""The small job of the stories about state: what has each customer spent? Orders come as files, totals go to files."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from onceward.epoch.checkpoint import Checkpoint
from onceward.epoch.home import Home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    import onceward as ow

WAIT_S: Final = 60.0
PARTITIONS: Final = "spark.sql.shuffle.partitions"


class Spending:
    """One folder: `incoming/` is read, a file for each epoch; below a pipeline's name are its home and its totals."""

    def __init__(self, spark: "SparkSession", folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self._orders = folder / "incoming"
        self._orders.mkdir()
        self._newest = int(time.time())

    def orders(self, day: str, cents: Mapping[str, int]) -> None:
        """A file appears at once and whole, as the source expects it."""
        lines = [json.dumps({"customer": name, "cents": spent}) for name, spent in cents.items()]
        hidden = self._orders / f".{day}"
        hidden.write_text("\n".join(lines), "utf-8")
        self._newest += 1
        os.utime(hidden, (self._newest, self._newest))  # the source reads older files first; a second apart is enough
        hidden.rename(self._orders / f"{day}.json")

    def home(self, name: str) -> Path:
        return self.folder / name / "home"

    def pipeline(self, name: str, state: "ow.State | None" = None) -> "ow.Pipeline":
        import onceward as ow

        orders = self.spark.readStream.schema("customer string, cents long").option("maxFilesPerTrigger", "1")
        totals = orders.json(str(self._orders)).groupBy("customer").sum("cents").toDF("customer", "total")
        made = ow.Pipeline(name, home=self.home(name), source=totals, output_mode="update", state=state)
        return made.to(ow.FileSink(self._totals(name), format="json"))

    def run(self, pipeline: "ow.Pipeline", from_savepoint: Path | None = None) -> "ow.Query":
        """All orders that there are, and then it ends."""
        with _one_partition(self.spark):
            query = pipeline.start(trigger="once", from_savepoint=from_savepoint)
            assert query.wait(WAIT_S), f"{pipeline.name} has not ended after {WAIT_S:.0f} s"
        return query

    def told(self, name: str) -> dict[str, int]:
        """What a reader of the output knows: of each customer the newest total."""
        files = sorted(self._totals(name).glob("epoch=*/[!._]*"), key=lambda file: file.parent.name)
        rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
        return {row["customer"]: row["total"] for row in rows}

    def state_files(self, name: str) -> Path:
        """Where Spark keeps the state of the only operator's only partition."""
        return self.home(name) / Checkpoint.newest(Home.at(self.home(name))).folder / "state" / "0" / "0"

    def _totals(self, name: str) -> Path:
        return self.folder / name / "totals"


@contextmanager
def _one_partition(spark: "SparkSession") -> Iterator[None]:
    """One store to look at, and the same for everybody who tells the story."""
    before = spark.conf.get(PARTITIONS)
    spark.conf.set(PARTITIONS, "1")
    try:
        yield
    finally:
        spark.conf.set(PARTITIONS, before or "4")
