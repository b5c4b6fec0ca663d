"""The ad application in a Spark of its own: ours, or the same on Spark's own sinks; asked by bench/p6_ads.py.

python -m bench.ads_job ads-onceward|ads-spark --bootstrap B --folder D
"""

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import onceward as ow
from bench.answering import Answers, answer_all
from onceward.apps.ads import pipelines
from onceward.apps.ads.places import Places
from onceward.demo import sparks_own
from onceward.demo.job import TRIGGER_MS, settings

SYSTEMS = ("ads-onceward", "ads-spark")
LEFT_OUT = "spark.driver.extraJavaOptions"  # the demo's Spark dies soon; this one is to be quick


class Job:
    def __init__(self, system: str, bootstrap: str, folder: Path) -> None:
        self.system, self.bootstrap, self.folder = system, bootstrap, folder
        self._running: list[Any] = []
        kept = {name: value for name, value in settings(folder).items() if name != LEFT_OUT}
        self.spark = ow.session("bench", master="local[2]", **kept)
        self.spark.sparkContext.setLogLevel("ERROR")

    def answers(self) -> Answers:
        return {"serve": self.serve, "stop": self.stop}

    def serve(self, asked: dict[str, Any]) -> dict[str, Any]:
        """All four pipelines, on places of their own."""
        prefix = asked["prefix"]
        places = Places(
            bootstrap=self.bootstrap, dsn=asked["dsn"], folder=self.folder, prefix=prefix, raw_prefix=prefix
        )
        places = replace(places, records_per_epoch=asked["epoch_records"])
        if self.system == "ads-spark":
            self._running = list(sparks_own.start(self.spark, places, trigger_ms=TRIGGER_MS))
        else:
            self._running = [it.start(trigger=f"{TRIGGER_MS}ms") for it in pipelines(self.spark, places)]
        return {}

    def stop(self, _asked: dict[str, Any]) -> dict[str, Any]:
        for query in self._running:
            query.stop()
        return {}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("system", choices=SYSTEMS)
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--folder", type=Path, required=True)
    given = options.parse_args()
    answer_all(lambda: Job(given.system, given.bootstrap, given.folder).answers())


if __name__ == "__main__":
    main()
