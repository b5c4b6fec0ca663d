"""G1: what an epoch costs over its size, 1,000 to 1,000,000 rows."""

from functools import partial

from bench.rounds import Outcome
from bench.stage import Stage

TITLE = "The cost of an epoch over its size"
BASE = "spark"
SYSTEMS = ("spark", "spark-tuned", "onceward")
SIZES = {1_000: 30, 10_000: 20, 100_000: 10, 1_000_000: 3}  # rows of an epoch, and epochs


def run(stage: Stage) -> None:
    small = stage.topics.filled(100_000, 100)
    systems = stage.able(
        stage.chosen(SYSTEMS), lambda it: stage.copy(it, small, 100_000, 100, epoch_records=20_000).check()
    )
    for rows, epochs in SIZES.items():
        records = rows * epochs
        if stage.options.records and records > stage.options.records:
            continue
        source = stage.topics.filled(records, 100)
        subjects = [stage.subject(it, it, partial(_once, stage, it, source, records, rows)) for it in systems]
        stage.rounds.interleave(f"epochs of {rows:,} rows", subjects, stage.options.rounds or 3)
        stage.topics.drop(source)


def _once(stage: Stage, system: str, source: str, records: int, rows: int) -> Outcome:
    found = stage.copy(system, source, records, 100, epoch_records=rows)
    metrics = {"epoch ms": found.metrics["epoch ms"], **found.metrics}
    return Outcome({**metrics, "µs per record": metrics["epoch ms"] * 1000 / rows}, found.records, found.check)
