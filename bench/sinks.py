"""What each sink costs in an epoch of ten thousand rows, beside the plain (at-least-once) way of writing there.

python -m bench.sinks [--epochs N] [--rows N] [--sinks files,postgres,delta,iceberg] [--json]

The same pipeline, with one sink, drains a preloaded topic under both guarantees in turns; the times are those that the
ledger keeps for each step of the sink, plus the decision. "kafka + X" is one epoch with both, beside Kafka alone.
"""

import argparse
import json
import tempfile
import uuid
from pathlib import Path

import numpy as np

import onceward as ow
from bench.broker import Bench, preload
from bench.machine import circumstances
from onceward.epoch.contract import TwoPhaseCommitSink
from onceward.servers.broker import DevBroker
from onceward.servers.postgres import PostgresServer

WARM_UP = 5  # epochs
ROUNDS = 2
COLUMNS = (
    "cast(key as string) as id",
    "cast(substr(value, 1, 10) as string) as number",
    "cast(value as string) as value",
    "timestamp as at",
    "cast(partition as int) as place",
)


class Sinks:
    """Makes sinks with targets of their own."""

    def __init__(self, folder: Path, postgres: PostgresServer, bootstrap: str) -> None:
        self.folder, self.dsn, self.bootstrap = folder, postgres.dsn(), bootstrap

    def make(self, kind: str) -> TwoPhaseCommitSink:
        name = uuid.uuid4().hex[:8]
        catalog = {"type": "sql", "uri": f"sqlite:///{self.folder}/{name}.db", "warehouse": f"file://{self.folder}/w"}
        makers = {
            "files": lambda: ow.FileSink(self.folder / f"files-{name}"),
            "postgres": lambda: ow.PostgresSink(self.dsn, table=f"t_{name}", create=True),
            "delta": lambda: ow.DeltaSink(self.folder / f"delta-{name}"),
            "iceberg": lambda: ow.IcebergSink(catalog=catalog, table="bench.rows"),
        }
        return makers[kind]()


def drain(
    bench: Bench, source: str, folder: Path, sinks: list[TwoPhaseCommitSink], rows: int, guarantee: str
) -> ow.Query:
    """Every epoch of the topic, into these sinks."""
    spark = ow.session("bench", master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    frame = ow.read_kafka(spark, bench.bootstrap, topics=[source], max_records_per_epoch=rows)
    name = f"bench-{uuid.uuid4().hex[:8]}"
    pipeline = ow.Pipeline(name, home=folder / name, source=frame, guarantee=guarantee)
    for sink in sinks:
        into_kafka = isinstance(sink, ow.KafkaSink)
        pipeline.to(
            sink,
            rows=lambda batch, plain=into_kafka: batch.select("key", "value") if plain else batch.selectExpr(*COLUMNS),
        )
    query = pipeline.start(trigger="once")
    query.wait()
    return query


def own_times(query: ow.Query, sink: str) -> list[float]:
    """What the sink's steps and the decision took, epoch by epoch."""
    return [
        sum(entry.sinks[sink].milliseconds.values()) + (entry.milliseconds["decide"] if len(entry.sinks) == 1 else 0)
        for entry in query.epochs[WARM_UP:]
    ]


def whole_times(query: ow.Query) -> list[float]:
    return [sum(entry.milliseconds.values()) for entry in query.epochs[WARM_UP:]]


def figures(times: list[float]) -> dict[str, float]:
    return {"p50": round(float(np.median(times)), 1), "p95": round(float(np.percentile(times, 95)), 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--sinks", default="files,postgres,delta,iceberg")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found: dict[str, dict[str, dict[str, float]]] = {}
    with (
        tempfile.TemporaryDirectory() as made,
        DevBroker(Path(made) / "kafka", port=0) as broker,
        PostgresServer() as postgres,
    ):
        folder, bench = Path(made), Bench(broker.bootstrap)
        (folder / "w").mkdir()
        source = bench.topic()
        preload(broker.bootstrap, source, options.rows * (options.epochs + WARM_UP))
        sinks = Sinks(folder, postgres, broker.bootstrap)
        kafka = lambda: ow.KafkaSink(bench.bootstrap, topic=bench.topic())  # noqa: E731
        drain(bench, source, folder, [kafka()], options.rows, "exactly-once")  # the JVM warms up
        for kind in options.sinks.split(","):
            times: dict[str, list[float]] = {"exactly-once": [], "plain": [], "kafka alone": [], "kafka + this": []}
            for _ in range(ROUNDS):
                for way, guarantee in (("exactly-once", "exactly-once"), ("plain", "at-least-once")):
                    query = drain(bench, source, folder, [sinks.make(kind)], options.rows, guarantee)
                    times[way] += own_times(query, {"files": "file"}.get(kind, kind))
                times["kafka alone"] += whole_times(
                    drain(bench, source, folder, [kafka()], options.rows, "exactly-once")
                )
                both = drain(bench, source, folder, [kafka(), sinks.make(kind)], options.rows, "exactly-once")
                times["kafka + this"] += whole_times(both)
            found[kind] = {way: figures(spent) for way, spent in times.items()}
            shown = ", ".join(f"{way} {one['p50']} / {one['p95']}" for way, one in found[kind].items())
            print(f"{kind}: {shown} ms (p50 / p95, {options.rows} rows)", flush=True)
    if options.json:
        print(json.dumps({"sinks_ms": found, **circumstances()}))


if __name__ == "__main__":
    main()
