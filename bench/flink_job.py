"""PyFlink in a process of its own and an environment of its own: it answers what bench/job.py answers.

    ENVIRONMENT/bin/python -m bench.flink_job SYSTEM --bootstrap B --folder D

SYSTEM: pyflink (as it comes), pyflink-tuned (object reuse, linger 50 ms, batches of 512 KiB, lz4; Python functions in
threads of the JVM). Exactly-once, with a checkpoint every second unless the request says otherwise. Nothing of Onceward
is imported here.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, WatermarkStrategy
from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.base import DeliveryGuarantee
from pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from pyflink.table import DataTypes, StreamTableEnvironment
from pyflink.table.udf import udf

from bench.answering import Answers, answer_all
from bench.cpu import adopt_orphans
from bench.producer_settings import LARGE_BATCHES

SYSTEMS = ("pyflink", "pyflink-tuned")
CHECKPOINT_MS = 1000
# Flink's own default of an hour is more than a broker allows (15 minutes).
PRODUCER = {"transaction.timeout.ms": "600000", "acks": "all"}
SOURCE = """
    CREATE TABLE source (k {kind}, v {kind}) WITH (
        'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
        'properties.group.id' = '{group}', 'scan.startup.mode' = 'earliest-offset', {bounded}
        'properties.isolation.level' = 'read_committed',
        'key.format' = 'raw', 'key.fields' = 'k', 'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY')
"""
TARGET = """
    CREATE TABLE target (k {kind}, v {kind}) WITH (
        'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
        'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{prefix}', {properties}
        'key.format' = 'raw', 'key.fields' = 'k', 'value.format' = 'raw', 'value.fields-include' = 'EXCEPT_KEY')
"""


class Job:
    def __init__(self, system: str, bootstrap: str, folder: Path) -> None:
        self.system, self.bootstrap, self.folder = system, bootstrap, folder
        self.tuned = system.endswith("tuned")
        self._served: Any = None
        StreamExecutionEnvironment.get_execution_environment()  # the JVM starts now

    def answers(self) -> Answers:
        return {"drain": self.drain, "serve": self.serve, "stop": self.stop}

    def drain(self, asked: dict[str, Any]) -> dict[str, Any]:
        """The time that Flink itself says the job took: a cluster's start is not counted."""
        began = time.perf_counter()
        result = self._start(asked, once=True).get_job_execution_result().result()
        return {
            "seconds": result.get_net_runtime() / 1000,
            "whole_seconds": time.perf_counter() - began,
            "epochs_ms": [],
            "commits_ms": [],
        }

    def serve(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._served = self._start(asked, once=False)
        return {}

    def stop(self, _asked: dict[str, Any]) -> dict[str, Any]:
        self._served.cancel().result()
        return {}

    def _start(self, asked: dict[str, Any], *, once: bool) -> Any:
        env = StreamExecutionEnvironment.get_execution_environment(self._settings(asked))
        if asked.get("function") == "datastream":
            return self._datastream(env, asked, once=once)
        table = StreamTableEnvironment.create(env)
        function = asked.get("function", "")
        kind = "STRING" if function else "BYTES"
        bounded = "'scan.bounded.mode' = 'latest-offset'," if once else ""
        names = {"bootstrap": self.bootstrap, "kind": kind}
        table.execute_sql(SOURCE.format(topic=asked["source"], group=asked["target"], bounded=bounded, **names))
        producer = "".join(f"'properties.{name}' = '{value}', " for name, value in self._producer().items())
        table.execute_sql(TARGET.format(topic=asked["target"], prefix=asked["target"], properties=producer, **names))
        value = "v"
        if function:
            make = {"plain": plain, "pandas": pandas}[function]
            table.create_temporary_function("capitals", make())
            value = "capitals(v)"
        return table.execute_sql(f"INSERT INTO target SELECT k, {value} FROM source").get_job_client()

    def _datastream(self, env: StreamExecutionEnvironment, asked: dict[str, Any], *, once: bool) -> Any:
        """Values alone: PyFlink's source gives no keys."""
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers(self.bootstrap)
            .set_group_id(asked["target"])
            .set_topics(asked["source"])
            .set_starting_offsets(KafkaOffsetsInitializer.earliest())
            .set_value_only_deserializer(SimpleStringSchema())
        )
        if once:
            source = source.set_bounded(KafkaOffsetsInitializer.latest())
        schema = (
            KafkaRecordSerializationSchema.builder()
            .set_topic(asked["target"])
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
        sink = (
            KafkaSink.builder()
            .set_bootstrap_servers(self.bootstrap)
            .set_record_serializer(schema)
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .set_transactional_id_prefix(asked["target"])
        )
        for name, value in self._producer().items():
            sink = sink.set_property(name, value)
        rows = env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "source")
        rows.map(lambda value: value.upper(), output_type=Types.STRING()).sink_to(sink.build())
        return env.execute_async("bench")

    def _producer(self) -> dict[str, str]:
        return {**PRODUCER, **(LARGE_BATCHES if self.tuned else {})}

    def _settings(self, asked: dict[str, Any]) -> Configuration:
        settings = {
            "execution.checkpointing.interval": f"{asked.get('checkpoint_ms', CHECKPOINT_MS)} ms",
            "execution.checkpointing.mode": "EXACTLY_ONCE",
            "restart-strategy.type": "none",  # a job that fails has no figure
            "python.executable": sys.executable,
            "python.client.executable": sys.executable,
            "rest.bind-port": "0",
        }
        if self.tuned:
            settings |= {"pipeline.object-reuse": "true", "python.execution-mode": "thread"}
        if "checkpoints" in asked:
            kept = self.folder / asked["checkpoints"]
            settings |= {
                "execution.checkpointing.storage": "filesystem",
                "execution.checkpointing.dir": kept.as_uri(),
                "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            }
            newest = max(kept.glob("*/chk-*/_metadata"), key=lambda it: it.stat().st_mtime, default=None)
            if newest is not None:
                settings["execution.state-recovery.path"] = newest.parent.as_uri()
        made = Configuration()
        for name, value in settings.items():
            made.set_string(name, value)
        return made


def plain() -> Any:
    return udf(lambda value: value.upper(), result_type=DataTypes.STRING(), input_types=[DataTypes.STRING()])


def pandas() -> Any:
    return udf(
        lambda values: values.str.upper(),
        result_type=DataTypes.STRING(),
        input_types=[DataTypes.STRING()],
        func_type="pandas",
    )


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("system", choices=SYSTEMS)
    options.add_argument("--bootstrap", required=True)
    options.add_argument("--folder", type=Path, required=True)
    given = options.parse_args()
    adopt_orphans()
    answer_all(lambda: Job(given.system, given.bootstrap, given.folder).answers())


if __name__ == "__main__":
    main()
