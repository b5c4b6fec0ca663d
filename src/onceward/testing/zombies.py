"""Cases in which an old process lives on: paused, replaced, and then awake again.

The ledger gives the decision to the newest term only, so a zombie's epoch is never decided; but it writes, votes,
aborts and repeats old commits before it learns that.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from onceward.epoch.contract import Verdict
from onceward.errors import (
    BrokerRefused,
    BrokerUnreachable,
    EpochFailed,
    PipelineFenced,
    SinkUnreachable,
    StagingLost,
    TargetUnusable,
)
from onceward.kafka.sender import IdentityLost
from onceward.testing.rehearsal import Process, Rehearsal

# Nobody waits for what a zombie is told; but it is what a person reads in its log, and what says whether it may go on.
BY_ABORT: Final = (PipelineFenced,)
BY_COMMIT: Final = (PipelineFenced, StagingLost)
# Before the decision any failure of the world will do, since the pipeline asks the term before it tells one: that the
# epoch's place in the target is taken, or, as Spark or the operating system says it, that what was staged is gone.
BEFORE_DECISION: Final = (
    *BY_COMMIT, EpochFailed, SinkUnreachable, TargetUnusable, BrokerUnreachable, BrokerRefused, IdentityLost,
    PySparkException, Py4JError, OSError,
)  # fmt: skip


@contextmanager
def may_be_refused(step: str, errors: tuple[type[Exception], ...]) -> Iterator[None]:
    """With one of these errors, and no other: only what it leaves counts."""
    try:
        yield
    except errors:
        pass
    except AssertionError:
        raise
    except Exception as error:
        names = ", ".join(it.__name__ for it in errors)
        raise AssertionError(
            f"{step} of a driver that was replaced says {type(error).__name__}: {error}. It may be refused with {names}"
        ) from error


def try_to_publish(zombie: Process, epoch: int, ids: Sequence[int]) -> None:
    """As far as a zombie comes: to its vote, or, where the sink decides, to a decision that must fail."""
    verdict = None
    with may_be_refused("begin(), write(), pre_commit() or decide()", BEFORE_DECISION):
        prepared = zombie.prepare(epoch, ids)
        verdict = zombie.decide(prepared) if zombie.decides else None
    assert verdict is not Verdict.COMMITTED, "a zombie's decision came through"


class Zombies:
    """An old process wakes."""

    @pytest.mark.parametrize("moment", ["aborted", "begun", "written", "prepared", "committed"])
    def test_a_zombies_late_write_is_never_visible(self, rehearsal: Rehearsal, moment: str) -> None:
        """Requirement C6: a driver that wakes after its replacement took over adds nothing."""
        zombie = rehearsal.start()
        zombie.run(0, range(10))
        heir = rehearsal.start()
        heir.abort(1)
        _wake(moment == "aborted", zombie)
        context = heir.begin(1)
        _wake(moment == "begun", zombie)
        outcome = heir.write(context, range(10, 20))
        _wake(moment == "written", zombie)
        prepared = heir.pre_commit(context, outcome, range(10, 20))
        _wake(moment == "prepared", zombie)
        heir.publish(prepared)
        _wake(moment == "committed", zombie)
        rehearsal.expect_visible(range(20), when=f"with a zombie that wrote when its successor had {moment}")
        heir.abort(2)
        rehearsal.expect_nothing_staged("after the successor's next abort()")
        heir.run(2, range(20, 30))
        rehearsal.expect_visible(range(30), when="after the epoch that follows")

    @pytest.mark.parametrize("moment", ["begun", "written", "prepared", "decided", "committed"])
    def test_a_zombies_late_abort_takes_nothing_from_its_successor(self, rehearsal: Rehearsal, moment: str) -> None:
        """A driver that finds itself replaced aborts what it had open: its own and older tries, no newer ones."""
        zombie = rehearsal.start()
        zombie.run(0, range(10))
        zombie.prepare(1, range(90, 100))
        heir = rehearsal.start()
        heir.abort(1)
        context = heir.begin(1)
        _abort_late(moment == "begun", zombie)
        outcome = heir.write(context, range(10, 20))
        _abort_late(moment == "written", zombie)
        prepared = heir.pre_commit(context, outcome, range(10, 20))
        _abort_late(moment == "prepared", zombie)
        prepared = heir.decide_for_good(prepared)
        _abort_late(moment == "decided", zombie)
        heir.commit(prepared)
        _abort_late(moment == "committed", zombie)
        rehearsal.expect_visible(range(20), when=f"with a zombie that aborted when its successor had {moment}")
        heir.abort(2)
        rehearsal.expect_nothing_staged("after the successor's next abort()")

    def test_a_zombies_late_commit_changes_nothing(self, rehearsal: Rehearsal) -> None:
        """Its epoch was decided, and its successor has committed it and gone on."""
        zombie = rehearsal.start()
        old = zombie.prepare(0, range(10))
        zombie.decide(old)
        heir = rehearsal.start()
        heir.commit(old)
        heir.run(1, range(10, 20))
        ready = heir.prepare(2, range(20, 30))
        with may_be_refused("commit()", BY_COMMIT):
            zombie.commit(old)
        rehearsal.expect_visible(range(20), when="after a zombie committed an old epoch again")
        heir.publish(ready)
        rehearsal.expect_visible(range(30), when="after the successor's next commit")
        with may_be_refused("commit()", BY_COMMIT):
            zombie.commit(old)
        rehearsal.start().expect_last_commit(2, "after a zombie's late commits")
        rehearsal.expect_nothing_staged("after a zombie's late commits")


def _wake(now: bool, zombie: Process) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if now:
        try_to_publish(zombie, 1, range(90, 100))


def _abort_late(now: bool, zombie: Process) -> None:  # noqa: FBT001
    if now:
        with may_be_refused("abort()", BY_ABORT):
            zombie.abort(1)
