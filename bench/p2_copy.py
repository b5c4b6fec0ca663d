"""P2, Kafka to Kafka: a pass-through with keys. Every system commits about once a second.

PyFlink has a checkpoint every second. Spark's and our epochs have 500,000 records, about a second's worth.
"""

from bench.rounds import Outcome, Subject
from bench.stage import Stage

TITLE = "Kafka to Kafka, keyed, committed about once a second"
BASE = "spark"
SYSTEMS = ("spark", "spark-tuned", "onceward", "onceward-preserve", "onceward-lz4", "pyflink", "pyflink-tuned")
SHORT = ("spark", "spark-tuned", "onceward", "pyflink-tuned")
EPOCH = 500_000
WOKEN_BY_RECORDS = 200_000  # before each round: Spark ends Python workers that had nothing to do for a minute
WARM_UP_RECORDS = 1_500_000  # fewer, and the first rounds still measure the JVM's compiler


def run(stage: Stage) -> None:
    sizes = (100,) if stage.options.short else (100, 1024)
    small = stage.topics.filled(min(WARM_UP_RECORDS, stage.options.records or WARM_UP_RECORDS), 100)
    count = min(WARM_UP_RECORDS, stage.options.records or WARM_UP_RECORDS)
    systems = stage.able(
        stage.chosen(SYSTEMS, short=SHORT), lambda it: stage.copy(it, small, count, 100, epoch_records=EPOCH).check()
    )
    few = stage.topics.filled(min(count, WOKEN_BY_RECORDS), 100)
    for size in sizes:
        records = stage.options.records or (2_000_000 if stage.options.short else 3_000_000) * 100 // size
        source = stage.topics.filled(records, size)
        per_epoch = epoch_records(stage, size)
        subjects = [_subject(stage, it, source, records, size, per_epoch, few) for it in systems]
        rounds = stage.options.rounds or (2 if stage.options.short else 5)
        stage.rounds.interleave(f"{size} B, {records:,} records", subjects, rounds)
        stage.topics.drop(source)


def epoch_records(stage: Stage, size: int) -> int | None:
    """About a second's worth, unless told otherwise."""
    asked = stage.options.epoch_records
    stage.report.settings["records of an epoch of 100 B"] = EPOCH if asked is None else asked or "all"
    return max(1, EPOCH * 100 // size) if asked is None else asked or None


def _subject(
    stage: Stage, system: str, source: str, records: int, size: int, per_epoch: int | None, few: str
) -> Subject:
    def once() -> Outcome:
        return stage.copy(system, source, records, size, epoch_records=per_epoch)

    return stage.subject(system, system, once, lambda: woken(stage, system, few))


def woken(stage: Stage, system: str, few: str) -> None:
    """It has just copied something over tasks, as a pipeline that runs for days has."""
    stage.copy(system, few, WOKEN_BY_RECORDS, 100, epoch_records=WOKEN_BY_RECORDS)
