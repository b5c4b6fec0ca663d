"""Cases in which the process ends between two steps, and another one goes on."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pytest
from pyspark import TaskContext

from onceward.errors import StagingLost
from onceward.testing.rehearsal import Process, Rehearsal

BEFORE_THE_DECISION: Final = ("begin", "write", "pre_commit")


def go(process: Process, step: str, epoch: int, ids: Sequence[int], *, input_rows: int | None = 10) -> None:
    """Run an epoch up to a step, and that step too."""
    context = process.begin(epoch, input_rows=input_rows)
    if step == "begin":
        return
    outcome = process.write(context, ids)
    if step == "pre_commit":
        process.pre_commit(context, outcome, ids)


class Crashes:
    """The process ends between two steps."""

    @pytest.mark.parametrize("input_rows", [10, None], ids=["short way", "long way"])
    @pytest.mark.parametrize("step", BEFORE_THE_DECISION)
    def test_a_crash_before_the_decision_leaves_nothing(
        self, rehearsal: Rehearsal, step: str, input_rows: int | None
    ) -> None:
        """Requirement B4: nothing of an aborted try is ever visible, and the epoch is redone."""
        process = rehearsal.start()
        process.run(0, range(10))
        go(process, step, 1, range(90, 100), input_rows=input_rows)
        heir = rehearsal.start()
        rehearsal.expect_visible(range(10), when=f"after a crash that followed {step}()")
        heir.expect_last_commit(0)
        heir.abort(1)
        rehearsal.expect_visible(range(10), when="after abort()")
        rehearsal.expect_nothing_staged(f"after a crash that followed {step}(), and abort() by the next process")
        heir.run(1, range(10, 20), input_rows=input_rows)
        rehearsal.expect_visible(range(20), when="after the epoch was redone")
        rehearsal.expect_nothing_staged("after the epoch was redone")

    @pytest.mark.parametrize("step", BEFORE_THE_DECISION)
    def test_a_crash_in_the_very_first_epoch_leaves_nothing(self, rehearsal: Rehearsal, step: str) -> None:
        go(rehearsal.start(), step, 0, range(90, 100))
        heir = rehearsal.start()
        assert heir.last_commit() is None, "nothing was committed"
        heir.abort(0)
        rehearsal.expect_nothing_staged("after abort()")
        heir.run(0, range(10))
        rehearsal.expect_visible(range(10), when="after the epoch was redone")

    @pytest.mark.parametrize("input_rows", [10, None], ids=["short way", "long way"])
    def test_a_decided_epoch_is_committed_by_the_next_process(
        self, rehearsal: Rehearsal, input_rows: int | None
    ) -> None:
        """Requirement B5: the next process has the committable, and nothing else."""
        process = rehearsal.start()
        process.run(0, range(10))
        prepared = process.prepare(1, range(10, 20), input_rows=input_rows)
        process.decide(prepared)
        heir = rehearsal.start()
        heir.commit(prepared)
        rehearsal.expect_visible(range(20), when="after the next process committed")
        heir.abort(2)
        rehearsal.expect_visible(range(20), when="after abort() of the epoch that follows")
        rehearsal.expect_nothing_staged("after the next process committed")
        heir.run(2, range(20, 30))
        rehearsal.expect_visible(range(30), when="after the epoch that follows")

    def test_a_decided_epoch_survives_a_row_of_crashes(self, rehearsal: Rehearsal) -> None:
        """What an older owner has pre-committed must stay when a sink is opened: it may have been decided."""
        process = rehearsal.start()
        prepared = process.prepare(0, range(10))
        process.decide(prepared)
        for _ in range(3):
            rehearsal.start().last_commit()
        rehearsal.start().commit(prepared)
        rehearsal.expect_visible(range(10), when="after four starts and a commit")

    def test_a_decided_epoch_whose_staging_is_gone_is_refused(self, rehearsal: Rehearsal) -> None:
        """Requirement B5: a commit is never skipped; what cannot be made visible any more stops the pipeline."""
        process = rehearsal.start()
        process.run(0, range(10))
        prepared = process.prepare(1, range(10, 20))
        if process.decides:  # it learns of the loss before it decides
            return
        process.abort(1)  # stands for whoever deleted it
        with pytest.raises(StagingLost):
            rehearsal.start().commit(prepared)
        rehearsal.expect_visible(range(10), when="after a commit() that was refused")
        rehearsal.start().expect_last_commit(0, "after a commit() that was refused")

    def test_a_crash_after_the_commit_is_noticed(self, rehearsal: Rehearsal) -> None:
        """Requirement B10: the sink tells that the epoch is committed, and committing it again adds nothing."""
        process = rehearsal.start()
        prepared = process.run(0, range(10))
        heir = rehearsal.start()
        heir.expect_last_commit(0)
        heir.commit(prepared)
        heir.abort(1)
        rehearsal.expect_visible(range(10), when="after a second commit() and abort() of the epoch that follows")
        rehearsal.start().expect_last_commit(0)

    def test_a_failed_try_is_followed_by_another_one(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        for attempt in (1, 2, 3):
            context = process.begin(0, attempt=attempt)
            process.write(context, range(90, 100))
            process.abort(0, attempt=attempt)
            rehearsal.expect_nothing_staged(f"after abort() of try {attempt}")
        process.publish(process.prepare(0, range(10), attempt=4))
        rehearsal.expect_visible(range(10), when="after the fourth try")
        rehearsal.expect_nothing_staged("after the fourth try")

    def test_a_task_that_fails_halfway_adds_nothing(self, rehearsal: Rehearsal) -> None:
        """Spark runs the task again, or gives up and the epoch is redone: each row counts once either way."""
        process = rehearsal.start()
        context = process.begin(0, input_rows=None)
        frame = rehearsal.frame(range(200))
        failing = frame.mapInArrow(partial(_fail_the_first_time, 30), frame.schema)
        try:
            outcome = process.write(context, failing)
        except Exception:  # noqa: BLE001 - Spark's own error, or the sink's
            process.abort(0)
            rehearsal.expect_visible(when="after a write() that failed, and abort()")
            prepared = process.prepare(0, range(200), attempt=2)
        else:
            assert outcome.rows == 200, "rows of a failed try of a task were counted"
            prepared = process.pre_commit(context, outcome, range(200))
        process.publish(prepared)
        rehearsal.expect_visible(range(200), when="after a task had failed halfway")
        rehearsal.expect_nothing_staged("after a task had failed halfway")


def _fail_the_first_time(after: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    task = TaskContext.get()
    for batch in batches:
        yield batch.slice(0, after)
        if task is not None and task.attemptNumber() == 0 and task.partitionId() == 0:
            raise RuntimeError("this task fails on purpose, to be tried again")
        yield batch.slice(after)
