"""P0, the ceiling: Kafka's own ProducerPerformance, idempotent and transactional.

At its defaults and with large batches. One thread, records without keys, nothing read: what the broker takes from its
own client.
"""

import re
import subprocess
from collections.abc import Sequence

from bench.producer_settings import LARGE_BATCHES
from bench.rounds import Failed, Outcome, Subject
from bench.stage import Stage
from onceward.jars import broker_jars, java_command

TITLE = "The ceiling: Kafka's own ProducerPerformance"
BASE = "idempotent"
ACKS = {"acks": "all", "enable.idempotence": "true"}
WAYS: dict[str, dict[str, str]] = {
    "idempotent": ACKS,
    "idempotent-large-batches": {**ACKS, **LARGE_BATCHES},
    "transactional": ACKS,
    "transactional-large-batches": {**ACKS, **LARGE_BATCHES},
}
RATE = re.compile(r"^(\d+) records sent, ([\d.,]+) records/sec", re.MULTILINE)
RUN_S = 600


def run(stage: Stage) -> None:
    sizes = (100,) if stage.options.short else (100, 1024)
    for size in sizes:
        records = stage.options.records or (1_000_000 if stage.options.short else 3_000_000) * 100 // size
        subjects = [_subject(stage, way, size, records) for way in stage.options.systems or WAYS]
        stage.rounds.interleave(f"{size} B, {records:,} records", subjects, stage.options.rounds or 3)


def _subject(stage: Stage, way: str, size: int, records: int) -> Subject:
    broker = stage.broker.pid()
    assert broker is not None

    def once() -> Outcome:
        topic = stage.topics.new()
        transactional = way.startswith("transactional")
        rate = produced(stage.bootstrap, topic, records, size, WAYS[way], transactional=transactional)

        def check() -> Sequence[str]:
            found, lengths = stage.topics.sizes(topic)
            wrong = [] if found == records else [f"{found:,} of {records:,} records are there"]
            return wrong if lengths == {size} else [*wrong, f"values of {sorted(lengths)} bytes"]

        return Outcome({"records/s": rate}, records, check)

    return Subject(way, once, lambda: {"broker": broker})


def produced(
    bootstrap: str, topic: str, records: int, size: int, settings: dict[str, str], *, transactional: bool
) -> float:
    """Records a second, as the tool says itself: the JVM's start is not counted."""
    path = ":".join(map(str, broker_jars()))
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [str(java_command()), "-Xmx512m", quiet, "-cp", path, "org.apache.kafka.tools.ProducerPerformance"]
    command += ["--topic", topic, "--num-records", str(records), "--record-size", str(size), "--throughput", "-1"]
    if transactional:
        command += ["--transactional-id", topic, "--transaction-duration-ms", "1000"]
    command += ["--producer-props", f"bootstrap.servers={bootstrap}"]
    command += [f"{name}={value}" for name, value in settings.items()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_S)
    told = RATE.findall(done.stdout)
    if done.returncode != 0 or not told:
        raise Failed(f"ProducerPerformance failed: {(done.stderr or done.stdout)[-500:]}")
    return float(told[-1][1].replace(",", ""))
