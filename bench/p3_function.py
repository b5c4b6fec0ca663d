"""P3: P2 with a Python function for each record, plain and over whole columns, the ways that each system offers.

The function makes a value's letters capitals. PyFlink's DataStream API gives Python the values without their keys.
"""

from collections.abc import Callable
from functools import partial

from bench.p2_copy import EPOCH, epoch_records
from bench.rounds import Outcome, Subject
from bench.stage import Stage

TITLE = "Kafka to Kafka through a Python function"
BASE = "onceward, plain"
FUNCTIONS = {"onceward": ("plain", "pandas", "arrow"), "spark": ("plain", "pandas", "arrow")}
OF_FLINK = ("plain", "pandas", "datastream")
SYSTEMS = ("onceward", "spark", "pyflink", "pyflink-tuned")
WARM_UP_RECORDS = 300_000


def run(stage: Stage) -> None:
    records = stage.options.records or 1_000_000
    count = min(records, WARM_UP_RECORDS)
    small, source = stage.topics.filled(count, 100), stage.topics.filled(records, 100)
    subjects = []
    for system in stage.chosen(SYSTEMS):
        for function in FUNCTIONS.get(system, OF_FLINK):

            def warm(it: str, function: str = function) -> None:
                stage.copy(it, small, count, 100, epoch_records=EPOCH, function=function).check()

            if stage.able([system], warm, said=f"{system}, {function}"):
                woken = partial(stage.copy, system, small, count, 100, epoch_records=EPOCH, function=function)
                subjects.append(_subject(stage, system, function, source, records, woken))
    stage.rounds.interleave(f"100 B, {records:,} records", subjects, stage.options.rounds or 3)


def _subject(
    stage: Stage, system: str, function: str, source: str, records: int, woken: Callable[[], object]
) -> Subject:
    per_epoch = epoch_records(stage, 100)

    def once() -> Outcome:
        return stage.copy(system, source, records, 100, epoch_records=per_epoch, function=function)

    return stage.subject(f"{system}, {function}", system, once, woken)
