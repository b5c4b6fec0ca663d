"""One query in a process of its own, so that each system has the session it would have.

    python -m bench.job SYSTEM drain|serve --bootstrap B --source T --target T --folder D

SYSTEM: onceward, onceward-preserve, spark (Spark's own Kafka sink at its defaults), spark-tuned (the same under the
settings that Onceward uses). `drain` reads lines "SOURCE TARGET" from standard input, copies each source to its
target and answers the seconds it took; `serve` copies until standard input ends.
"""

import argparse
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import onceward as ow
from onceward.jars import connector_jars
from onceward.sinks.kafka import sink as kafka_sink

SYSTEMS = ("onceward", "onceward-shuffle", "onceward-preserve", "spark", "spark-tuned")


def session(system: str) -> SparkSession:
    if system != "spark":
        return ow.session("bench", master="local[2]")
    jars = ",".join(map(str, connector_jars()))
    return SparkSession.builder.appName("bench").master("local[2]").config("spark.jars", jars).getOrCreate()


def read(spark: SparkSession, system: str, bootstrap: str, source: str) -> DataFrame:
    if system != "spark":
        return ow.read_kafka(spark, bootstrap, topics=[source])
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", source)
    return reader.option("startingOffsets", "earliest").load()


class Copies:
    """Starts pass-through queries from a topic to a topic."""

    def __init__(self, system: str, bootstrap: str, folder: Path) -> None:
        self.system, self.bootstrap, self.folder = system, bootstrap, folder
        self.spark = session(system)
        self.spark.sparkContext.setLogLevel("ERROR")

    def start(self, source: str, target: str, *, once: bool) -> ow.Query | StreamingQuery:
        frame = read(self.spark, self.system, self.bootstrap, source)
        home = self.folder / f"{self.system}-{target}"
        if self.system.startswith("onceward"):
            preserve = self.system.endswith("preserve")
            if self.system.endswith("shuffle"):
                kafka_sink.is_local = lambda _: False  # type: ignore[attr-defined]
            columns = ["key", "value", "partition"] if preserve else ["key", "value"]
            sink = ow.KafkaSink(self.bootstrap, topic=target, partitioning="preserve" if preserve else "key")
            pipeline = ow.Pipeline(f"{self.system}-{target}", home=home, source=frame)
            return pipeline.to(sink, rows=lambda batch: batch.select(*columns)).start(trigger="once" if once else None)
        writer = frame.select("key", "value").writeStream.format("kafka")
        writer = writer.option("kafka.bootstrap.servers", self.bootstrap).option("topic", target)
        writer = writer.option("checkpointLocation", str(home))
        return (writer.trigger(availableNow=True) if once else writer).start()

    def drain(self) -> None:
        for line in sys.stdin:
            source, target = line.split()
            began = time.perf_counter()
            query = self.start(source, target, once=True)
            if isinstance(query, ow.Query):
                query.wait()
            else:
                query.awaitTermination()
            sys.stdout.write(f"{time.perf_counter() - began}\n")
            sys.stdout.flush()

    def serve(self, source: str, target: str) -> None:
        query = self.start(source, target, once=False)
        sys.stdout.write("started\n")
        sys.stdout.flush()
        sys.stdin.read()
        query.stop()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("system", choices=SYSTEMS)
    parser.add_argument("work", choices=("drain", "serve"))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--source", default="")
    parser.add_argument("--target", default="")
    options = parser.parse_args()
    copies = Copies(options.system, options.bootstrap, options.folder)
    if options.work == "drain":
        copies.drain()
    else:
        copies.serve(options.source, options.target)


if __name__ == "__main__":
    main()
