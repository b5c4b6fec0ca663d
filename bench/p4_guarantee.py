"""P4, what the guarantee costs: the same job at-least-once and exactly-once, in epochs of about 250 ms and of 1 s.

The backlog is drained in epochs back to back, each as large as what the job copies in that time.
"""

from bench.rounds import Outcome, Subject
from bench.stage import Stage

TITLE = "What the guarantee costs: at-least-once and exactly-once"
BASE = "onceward, at-least-once"
GUARANTEES = ("at-least-once", "exactly-once")
SYSTEM = "onceward"
PER_SECOND = 1_000_000  # about what the job copies
WARM_UP_RECORDS = 1_500_000


def run(stage: Stage) -> None:
    records = stage.options.records or (3_000_000 if stage.options.short else 6_000_000)
    source = stage.topics.filled(records, 100)
    small = stage.topics.filled(min(records, WARM_UP_RECORDS), 100)
    for _ in range(2):
        stage.copy(SYSTEM, small, min(records, WARM_UP_RECORDS), 100).check()
    for milliseconds in (1000, 250):
        per_epoch = min(records, PER_SECOND * milliseconds // 1000)
        subjects = [_subject(stage, it, source, records, per_epoch) for it in GUARANTEES]
        case = f"an epoch about every {milliseconds} ms ({per_epoch:,} records)"
        stage.rounds.interleave(case, subjects, stage.options.rounds or (3 if stage.options.short else 7))


def _subject(stage: Stage, guarantee: str, source: str, records: int, per_epoch: int) -> Subject:
    def once() -> Outcome:
        return stage.copy(SYSTEM, source, records, 100, epoch_records=per_epoch, guarantee=guarantee)

    return stage.subject(f"onceward, {guarantee}", SYSTEM, once)
