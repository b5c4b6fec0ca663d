"""G2: what an epoch of 10,000 rows costs over 1, 4, 16 and 64 partitions."""

from functools import partial

from bench.rounds import Outcome
from bench.stage import Stage

TITLE = "The cost of an epoch over the number of partitions"
BASE = "spark"
SYSTEMS = ("spark", "spark-tuned", "onceward")
ROWS, EPOCHS = 10_000, 20


def run(stage: Stage) -> None:
    records = stage.options.records or ROWS * EPOCHS
    small = stage.topics.filled(100_000, 100)
    systems = stage.able(stage.chosen(SYSTEMS), lambda it: stage.copy(it, small, 100_000, 100).check())
    for partitions in (1, 4, 16, 64):
        source = stage.topics.filled(records, 100, partitions)
        subjects = [stage.subject(it, it, partial(_once, stage, it, source, records, partitions)) for it in systems]
        stage.rounds.interleave(f"{partitions} partitions", subjects, stage.options.rounds or 3)
        stage.topics.drop(source)


def _once(stage: Stage, system: str, source: str, records: int, partitions: int) -> Outcome:
    found = stage.copy(system, source, records, 100, partitions=partitions, epoch_records=ROWS)
    return Outcome({"epoch ms": found.metrics["epoch ms"], **found.metrics}, found.records, found.check)
