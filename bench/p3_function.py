"""P3: P2 with a Python function for each record, plain and over whole columns, the ways that each system offers.

The function makes a value's letters capitals. PyFlink's DataStream API gives Python the values without their keys.
"""

from collections.abc import Callable
from functools import partial

from bench.p2_copy import EPOCH, WOKEN_BY_RECORDS, epoch_records
from bench.rounds import Outcome, Subject
from bench.stage import Stage

TITLE = "Kafka to Kafka through a Python function"
BASE = "onceward, plain"
OF_SPARK = ("plain", "pandas", "arrow")
FUNCTIONS = {"onceward": OF_SPARK, "onceward-rows": OF_SPARK, "spark": OF_SPARK}
OF_FLINK = ("plain", "pandas", "datastream")
SYSTEMS = ("onceward", "onceward-rows", "spark", "pyflink", "pyflink-tuned")
WARM_UP_RECORDS = 1_000_000


def run(stage: Stage) -> None:
    records = stage.options.records or 2_000_000
    count, some = min(records, WARM_UP_RECORDS), min(records, WOKEN_BY_RECORDS)
    small, source, few = (stage.topics.filled(it, 100) for it in (count, records, some))
    subjects = []
    for system in stage.chosen(SYSTEMS):
        for function in FUNCTIONS.get(system, OF_FLINK):
            rates = dict[str, float]()

            def warm(it: str, function: str = function, rates: dict[str, float] = rates) -> None:
                made = stage.copy(it, small, count, 100, epoch_records=EPOCH, function=function)
                rates[it] = made.metrics["records/s"]

            if stage.able([system], warm, said=f"{system}, {function}"):
                woken = partial(stage.copy, system, few, some, 100, epoch_records=some, function=function)
                per_epoch = epoch_records(stage, system, rates[system], 100)
                subjects.append(_subject(stage, system, function, source, records, per_epoch, woken))
    stage.rounds.interleave(f"100 B, {records:,} records", subjects, stage.options.rounds or 3)


def _subject(
    stage: Stage,
    system: str,
    function: str,
    source: str,
    records: int,
    per_epoch: int | None,
    woken: Callable[[], object],
) -> Subject:
    def once() -> Outcome:
        return stage.copy(system, source, records, 100, epoch_records=per_epoch, function=function)

    return stage.subject(f"{system}, {function}", system, once, woken)
