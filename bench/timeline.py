"""Where the time of a small epoch goes: Spark's own steps, ours within them, and the calls between Python and the JVM.

    python -m bench.timeline [--seconds N] [--rate N] [--json]

A pipeline copies records that come at a steady rate, in epochs as short as they get. Each figure is a median over the
epochs after a warm-up. Spark's steps are those of its progress; ours are those of the ledger. A call is a request over
py4j's sockets, a release is one that only says that Python has let go of an object.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayClient

import onceward as ow
from bench.broker import Topics
from bench.machine import circumstances
from bench.open_loop import feeding
from onceward.servers.broker import DevBroker

WARM_UP_EPOCHS = 200
RELEASE = "m\nd\n"
SPARKS = ("latestOffset", "getBatch", "walCommit", "queryPlanning", "addBatch", "commitOffsets", "triggerExecution")


class Calls:
    """Counts what goes through py4j."""

    def __init__(self) -> None:
        self.calls = self.releases = 0
        plain = GatewayClient.send_command

        def counted(client: GatewayClient, command: str, *rest: Any, **named: Any) -> Any:
            if command.startswith(RELEASE):
                self.releases += 1
            else:
                self.calls += 1
            return plain(client, command, *rest, **named)

        GatewayClient.send_command = counted


def measure(seconds: float, rate: int) -> dict[str, Any]:
    calls = Calls()
    with tempfile.TemporaryDirectory() as folder, DevBroker(Path(folder) / "kafka", port=0) as broker:
        spark = ow.session("timeline", master="local[2]")
        spark.sparkContext.setLogLevel("ERROR")
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
        topics = Topics(broker.bootstrap)
        source, target = topics.new(), topics.new()
        frame = ow.read_kafka(spark, broker.bootstrap, topics=[source])
        pipeline = ow.Pipeline("timeline", home=Path(folder) / "home", source=frame.select("key", "value"))
        pipeline.to(ow.KafkaSink(broker.bootstrap, topic=target))
        with closing(topics.wire), pipeline.start() as query:
            with feeding(broker.bootstrap, source, rate, seconds):
                time.sleep(seconds)  # the load's own length
            query.process_all_available()
            entries = list(query.epochs)
            progress = [it for it in query.spark_query.recentProgress if it["numInputRows"]][WARM_UP_EPOCHS:]
            epochs = max(query.epochs_committed, 1)
        spark.stop()
    parts = [it.sinks["kafka"].milliseconds for it in entries]
    return {
        "epochs": epochs,
        "rows in an epoch": median(it["numInputRows"] for it in progress),
        "Spark, ms": {name: median(it["durationMs"].get(name, 0) for it in progress) for name in SPARKS},
        "Onceward within addBatch, ms": {
            step: median(part.get(step, 0.0) for part in parts)
            for step in ("begin", "write", "compute", "pre_commit", "decide")
        },
        "py4j calls an epoch": round(calls.calls / epochs, 1),
        "py4j releases an epoch": round(calls.releases / epochs, 1),
    }


def median(values: Iterable[float]) -> float:
    found = list(values)
    return round(statistics.median(found), 2) if found else 0.0


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=40.0)
    options.add_argument("--rate", type=int, default=1000)
    options.add_argument("--json", action="store_true")
    given = options.parse_args()
    found = {**measure(given.seconds, given.rate), "circumstances": circumstances()}
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        if isinstance(value, dict):
            print(name)
            for step, figure in value.items():
                print(f"  {step:<18} {figure}")
        else:
            print(f"{name:<26} {value}")


if __name__ == "__main__":
    main()
