"""P7, each further sink of an epoch of 10,000 rows: alone, beside Kafka, and beside the plain way of writing there.

A sink's time is that of its steps in the ledger, without the time in which Spark computed the rows.
"""

import statistics
import uuid
from typing import Any

from bench import targets
from bench.rounds import Outcome, Subject
from bench.stage import Stage
from onceward.servers.postgres import PostgresServer

TITLE = "Each further sink, in epochs of 10,000 rows"
BASE = "exactly-once"
ROWS = 10_000
WARM_UP = 3  # epochs
LEDGER_NAMES = {"files": "file"}
WAYS = ("exactly-once", "at-least-once", "kafka alone", "kafka and this")


def run(stage: Stage) -> None:
    epochs = 10 if stage.options.short else 30
    records = ROWS * (epochs + WARM_UP)
    source = stage.topics.filled(records, 100)
    stage.report.settings |= {"rows": ROWS, "epochs": epochs}
    with PostgresServer() as postgres:
        dsn = postgres.dsn()
        _drained(stage, source, records, "files", "kafka and this", dsn)  # the JVM warms up
        for kind in stage.options.systems or targets.KINDS:
            ways = (*WAYS, "Spark's own file sink") if kind == "files" else WAYS
            subjects = [_subject(stage, source, records, kind, way, dsn) for way in ways]
            stage.rounds.interleave(kind, subjects, stage.options.rounds or 3)


def _subject(stage: Stage, source: str, records: int, kind: str, way: str, dsn: str) -> Subject:
    system = "spark-tuned" if way.startswith("Spark") else "onceward"
    return stage.subject(way, system, lambda: _drained(stage, source, records, kind, way, dsn))


def _drained(stage: Stage, source: str, records: int, kind: str, way: str, dsn: str) -> Outcome:
    sinks = {"kafka alone": ["kafka"], "kafka and this": ["kafka", kind]}.get(way, [kind])
    name = stage.topics.new() if "kafka" in sinks else uuid.uuid4().hex[:8]
    guarantee = "at-least-once" if way == "at-least-once" else None
    worker = stage.worker("spark-tuned" if way.startswith("Spark") else "onceward")
    answer = worker.ask(
        "drain", source=source, target=name, sinks=sinks, dsn=dsn, guarantee=guarantee, epoch_records=ROWS
    )

    def check() -> list[str]:
        if kind not in sinks:
            return []
        return targets.wrong(targets.numbers(kind, name, stage.folder, dsn), records)

    return Outcome(_metrics(answer, kind if kind in sinks else "kafka"), check=check)


def _metrics(answer: dict[str, Any], kind: str) -> dict[str, float]:
    found = {"epoch ms": statistics.median(answer["epochs_ms"][WARM_UP:])}
    own = [_own(it[LEDGER_NAMES.get(kind, kind)]) for it in answer.get("sinks_ms", [])[WARM_UP:]]
    return {**found, "sink ms": statistics.median(own)} if own else found


def _own(steps: dict[str, float]) -> float:
    """`compute` is a part of `write`: Spark's work, which every way of writing needs."""
    return sum(took for step, took in steps.items() if step != "compute") - steps.get("compute", 0.0)
