"""The process that is killed: `python -m onceward.proof.chaos.job [FILE]`. It ends by SIGTERM, or with its parent."""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from onceward.errors import OncewardError, PipelineFileError
from onceward.pipeline import host
from onceward.pipeline.pipeline import Pipeline
from onceward.pipeline.session import session
from onceward.proof.chaos import builtin
from onceward.proof.chaos.books import HOMES
from onceward.proof.chaos.places import SPARK, Places

TRIGGER: Final = "100ms"


def settings(folder: Path) -> dict[str, str]:
    """A Spark that starts quickly, since it dies soon, and leaves its litter in the run's own folder."""
    litter = folder / "tmp"
    litter.mkdir(exist_ok=True)
    jvm = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", f'"-Djava.io.tmpdir={litter}"')
    return {
        "spark.driver.extraJavaOptions": " ".join(jvm),
        "spark.local.dir": str(litter),
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "512m",
    }


def pipelines(file: Path | None) -> Callable[[SparkSession, Places], list[Pipeline]]:
    """What to run: the built-in job, or the user's."""

    def built(spark: SparkSession, places: Places) -> list[Pipeline]:
        build = builtin.build if file is None else getattr(host.load_module(file, spark), "build", None)
        if not callable(build):
            raise PipelineFileError(f"{file} has no function build(spark, places)")
        return host.require_pipelines(build(spark, places), f"build(spark, places) in {file}", file)

    return built


def run_sparks_own(spark: SparkSession, places: Places) -> None:
    """The contrast: the same computation into Spark's own sink, as its documentation says to write."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    query = (
        builtin.as_records(builtin.numbered(spark, places))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", places.bootstrap)
        .option("topic", builtin.OUT)
        .option("checkpointLocation", str(places.folder / "home" / "checkpoint"))
        .outputMode("append")
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    while not asked.wait(0.2):
        if not query.isActive:
            query.awaitTermination()
    query.stop()


def end_with_parent() -> None:
    """Standard input is a pipe that only the prover holds: its end is ours, even by kill -9."""
    while os.read(0, 1):  # unbuffered: Python cannot end while a thread waits in sys.stdin
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _tell_homes(places: Places, homes: Sequence[str | Path]) -> None:
    fresh = places.folder / f"{HOMES}.{os.getpid()}"
    fresh.write_text(json.dumps([str(home) for home in homes]))
    fresh.replace(places.folder / HOMES)


def say(text: str) -> None:
    """On standard error, at once: the next moment may be the last."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("file", type=Path, nargs="?")
    options.add_argument("--master", default="local[2,4]")
    options.add_argument("--take-over", action="store_true")
    given = options.parse_args()
    threading.Thread(target=end_with_parent, daemon=True).start()
    places = Places.here()
    places.folder.mkdir(parents=True, exist_ok=True)
    spark = session("onceward-prove", master=given.master, **settings(places.folder))
    if places.guarantee == SPARK:
        _tell_homes(places, [places.folder / "home"])
        run_sparks_own(spark, places)
    else:
        built = pipelines(given.file)(spark, places)
        _tell_homes(places, [pipeline.home for pipeline in built])
        host.run(built, trigger=TRIGGER, take_over=given.take_over, report=say)
    spark.stop()


if __name__ == "__main__":
    try:
        main()
    except OncewardError as error:
        # Its name is what the judge reads: which errors a driver may end with is part of the verdict.
        say(f"ENDED {type(error).__name__}: {error}")
        sys.exit(1)
