"""P2, Kafka to Kafka: a pass-through with keys. Every system commits about once a second.

PyFlink has a checkpoint every second. Spark's and our epochs have as many records as the system copied in a second when
it had warmed up. `onceward-rows` is the same copy computed by Spark, as any other query is.
"""

from bench.rounds import Outcome, Subject
from bench.stage import Stage

TITLE = "Kafka to Kafka, keyed, committed about once a second"
BASE = "spark"
SYSTEMS = (
    "spark", "spark-tuned", "onceward", "onceward-rows", "onceward-preserve", "onceward-lz4", "pyflink",
    "pyflink-tuned",
)  # fmt: skip
SHORT = ("spark", "spark-tuned", "onceward", "pyflink-tuned")
EPOCH = 500_000  # while it warms up
STEP = 100_000  # epochs of about a second are told in steps of so many records
WOKEN_BY_RECORDS = 200_000  # before each round: Spark ends Python workers that had nothing to do for a minute
WARM_UP_RECORDS = 1_500_000  # fewer, and the first rounds still measure the JVM's compiler


def run(stage: Stage) -> None:
    sizes = (100,) if stage.options.short else (100, 1024)
    count = min(WARM_UP_RECORDS, stage.options.records or WARM_UP_RECORDS)
    small, rates = stage.topics.filled(count, 100), dict[str, float]()

    def warm(system: str) -> None:
        rates[system] = stage.copy(system, small, count, 100, epoch_records=EPOCH).metrics["records/s"]

    systems = stage.able(stage.chosen(SYSTEMS, short=SHORT), warm)
    few = stage.topics.filled(min(count, WOKEN_BY_RECORDS), 100)
    for size in sizes:
        records = stage.options.records or (2_000_000 if stage.options.short else 6_000_000) * 100 // size
        source = stage.topics.filled(records, size)
        subjects = [
            _subject(stage, it, source, records, size, epoch_records(stage, it, rates[it], size), few) for it in systems
        ]
        rounds = stage.options.rounds or (2 if stage.options.short else 5)
        stage.rounds.interleave(f"{size} B, {records:,} records", subjects, rounds)
        stage.topics.drop(source)


def epoch_records(stage: Stage, system: str, per_second: float, size: int) -> int | None:
    """About a second's worth, unless told otherwise."""
    asked = stage.options.epoch_records
    if asked is None and not system.startswith("pyflink"):
        asked = max(1, round(per_second / STEP)) * STEP * 100 // size
        stage.report.settings.setdefault("records of an epoch of 100 B", {}).setdefault(system, asked * size // 100)
    return asked or None


def _subject(
    stage: Stage, system: str, source: str, records: int, size: int, per_epoch: int | None, few: str
) -> Subject:
    def once() -> Outcome:
        return stage.copy(system, source, records, size, epoch_records=per_epoch)

    return stage.subject(system, system, once, lambda: woken(stage, system, few))


def woken(stage: Stage, system: str, few: str) -> None:
    """It has just copied something over tasks, as a pipeline that runs for days has."""
    stage.copy(system, few, WOKEN_BY_RECORDS, 100, epoch_records=WOKEN_BY_RECORDS)
