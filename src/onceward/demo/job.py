"""The application that is killed: all its pipelines in one Spark, and beside them the same on Spark's own sinks.

Run as `python -m onceward.demo.job`. It ends by SIGTERM, cleanly, or with the process that started it.
"""

import argparse
import os
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

import onceward as ow
from onceward.apps.ads import pipelines
from onceward.apps.ads.places import Places
from onceward.demo import sides, sparks_own
from onceward.demo.state import StateSizes

POLL_S: Final = 0.5
TRIGGER_MS: Final = 500
PARTITIONS: Final = 2
MAINTENANCE_S: Final = 5


def settings(folder: Path) -> dict[str, str]:
    """A Spark that starts quickly, since it dies soon, and leaves its litter in the demo's own folder."""
    litter = folder / "tmp"
    litter.mkdir(exist_ok=True)
    jvm = (
        "-XX:TieredStopAtLevel=1",  # no time for the optimising compiler
        "-XX:ReservedCodeCacheSize=240m",  # that level's 48 MB are full after a while, and nothing is compiled any more
        "-XX:+UseSerialGC",
        "-XX:-UsePerfData",
        f'"-Djava.io.tmpdir={litter}"',
    )
    return {
        "spark.driver.extraJavaOptions": " ".join(jvm),
        "spark.local.dir": str(litter),
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        # Usually once a minute. A Spark that never lives that long would start with every change of its state so far.
        "spark.sql.streaming.stateStore.maintenanceInterval": f"{MAINTENANCE_S}s",
    }


def run(spark: SparkSession, ours: Places, contrast: Places | None, asked: threading.Event) -> None:
    """Until it is asked to stop, or one of the queries fails."""
    running = [pipeline.start(trigger=f"{TRIGGER_MS}ms") for pipeline in pipelines(spark, ours)]
    beside = sparks_own.start(spark, contrast, trigger_ms=TRIGGER_MS) if contrast else []
    sizes = StateSizes()
    while not asked.wait(POLL_S):
        sizes.look(running)
        for query in running:
            if not query.is_active:
                query.wait()
        for other in beside:
            if not other.isActive:
                other.awaitTermination()
    sizes.write(ours.folder)
    for query in running:
        query.stop()
    for other in beside:
        other.stop()


def _end_with_parent() -> None:
    """Standard input is a pipe that only the demo holds: its end is the demo's end, even by kill -9."""
    while os.read(0, 1):  # unbuffered: Python cannot end while a thread waits in sys.stdin
        pass
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--folder", type=Path, required=True)
    options.add_argument("--guarantee", default="exactly-once")
    options.add_argument("--records-per-epoch", type=int, required=True)
    options.add_argument("--alone", action="store_true", help="without the contrast")
    given = options.parse_args()
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    threading.Thread(target=_end_with_parent, daemon=True).start()

    spark = ow.session("onceward-demo", master="local[2]", **settings(given.folder))
    bootstrap, dsn = (os.environ[name] for name in sides.SERVERS)
    per_epoch = given.records_per_epoch
    contrast = None if given.alone else replace(sides.sparks(given.folder, bootstrap, dsn), records_per_epoch=per_epoch)
    ours = replace(sides.ours(given.folder, bootstrap, dsn, given.guarantee), records_per_epoch=per_epoch)
    run(spark, ours, contrast, asked)
    spark.stop()


if __name__ == "__main__":
    main()
