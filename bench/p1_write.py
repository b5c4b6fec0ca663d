"""P1, writing alone: rows that Spark makes, into Kafka; ours beside Spark's own sink, and beside the ceiling (P0)."""

from functools import partial

from bench.broker import PARTITIONS
from bench.content import KEY_BYTES, Verdict
from bench.p0_ceiling import ACKS, produced
from bench.rounds import Outcome, Subject
from bench.stage import Stage

TITLE = "Writing alone: a DataFrame to Kafka"
BASE = "spark"
SYSTEMS = ("spark", "spark-tuned", "onceward", "onceward-lz4")
CEILING = "ProducerPerformance, transactional"
WARM_UP_RECORDS = 1_000_000


def run(stage: Stage) -> None:
    sizes = (100,) if stage.options.short else (100, 1024)
    systems = stage.able(
        stage.chosen(SYSTEMS, short=("spark", "onceward")), lambda it: _written(stage, it, WARM_UP_RECORDS, 100).check()
    )
    for size in sizes:
        records = stage.options.records or (1_000_000 if stage.options.short else 3_000_000) * 100 // size
        subjects = [_subject(stage, it, records, size) for it in systems]
        if not stage.options.systems:
            subjects.append(Subject(CEILING, partial(_ceiling, stage, records, size)))
        stage.rounds.interleave(f"{size} B, {records:,} records", subjects, stage.options.rounds or 3)


def _subject(stage: Stage, system: str, records: int, size: int) -> Subject:
    return stage.subject(system, system, lambda: _written(stage, system, records, size))


def _written(stage: Stage, system: str, records: int, size: int) -> Outcome:
    """Each of the two tasks has records of its own for every partition: there is no one order to ask for."""
    target = stage.topics.new()
    answer = stage.worker(system).ask("write", target=target, records=records, size=size)
    verdict = Verdict(records, size - KEY_BYTES, ordered=False)
    rate = records / answer["seconds"]
    return Outcome({"records/s": rate}, records, check=lambda: stage.topics.judged(target, verdict, PARTITIONS))


def _ceiling(stage: Stage, records: int, size: int) -> Outcome:
    topic = stage.topics.new()
    rate = produced(stage.bootstrap, topic, records, size, ACKS, transactional=True)
    return Outcome({"records/s": rate}, records, check=lambda: _counted(stage, topic, records))


def _counted(stage: Stage, topic: str, records: int) -> list[str]:
    found, _ = stage.topics.sizes(topic)
    return [] if found == records else [f"{found:,} of {records:,} records are there"]
