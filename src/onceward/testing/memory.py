"""Cases about the marker: what `last_commit` says between epochs, and when the target has forgotten commits.

A pipeline asks before every epoch, and stops if the answer is not what it has committed there last: a restored backup
or a failover to a replica that lagged is noticed before anything is added.
"""

import time
from typing import Final

import pytest

from onceward.epoch.contract import DecidingSink
from onceward.errors import OncewardError
from onceward.testing.rehearsal import Process, Rehearsal, Restore

TIMES: Final = 3
SETTLED_S: Final = 10.0


class Memory:
    """What the sink remembers."""

    def test_the_last_commit_is_told_between_epochs(self, rehearsal: Rehearsal) -> None:
        """By the object that committed it, as often as it is asked; asking changes nothing."""
        process = remembering(rehearsal)
        for epoch in range(3):
            process.run(epoch, _ids(epoch))
            for _ in range(TIMES):
                _expect(process, epoch, f"asked by the same object after the commit of epoch {epoch}")
        rehearsal.expect_visible(range(30), when=f"with last_commit() asked {TIMES} times after each epoch")
        rehearsal.expect_nothing_staged(f"with last_commit() asked {TIMES} times after each epoch")

    def test_the_last_commit_is_told_between_two_tries(self, rehearsal: Rehearsal) -> None:
        """An aborted try is none, and what is asked then does not disturb the next one."""
        process = remembering(rehearsal)
        process.run(0, _ids(0))
        process.prepare(1, range(90, 100))
        process.abort(1)
        _expect(process, 0, "after a try that was aborted")
        process.publish(process.prepare(1, _ids(1), attempt=2))
        _expect(process, 1, "after the next try")
        rehearsal.expect_visible(range(20), when="after a try that was aborted and one that was committed")

    def test_the_last_commit_of_another_process_is_told(self, rehearsal: Rehearsal) -> None:
        """What the target says now, not what this object has done or seen."""
        old = remembering(rehearsal)
        old.run(0, _ids(0))
        _expect(old, 0, "asked by the object that committed")
        heir = rehearsal.start()
        heir.run(1, _ids(1))
        _expect(old, 1, "asked by an object whose successor has committed")
        heir.run(2, _ids(2))
        _expect(old, 2, "asked again by an object whose successor has gone on")
        _expect(heir, 2, "asked by the successor")

    def test_a_target_that_was_set_back_tells_the_older_epoch(self, rehearsal: Rehearsal) -> None:
        """The object lives on while somebody restores a backup."""
        process = remembering(rehearsal)
        process.run(0, _ids(0))
        restore = backup(rehearsal)
        for epoch in (1, 2):
            process.run(epoch, _ids(epoch))
        _expect(process, 2, "before the target was set back")
        restore()
        rehearsal.expect_visible(range(10), when="after the target was set back")
        for _ in range(TIMES):
            _expect(process, 0, "asked by the same object after the target was set back")

    def test_nothing_is_added_to_a_target_that_was_set_back_before_the_commit(self, rehearsal: Rehearsal) -> None:
        """Requirement B5: a commit that cannot be right stops with a name; it is never half of what was decided."""
        process = remembering(rehearsal)
        if isinstance(process.sink, DecidingSink):
            pytest.skip("the sink decides by itself: what was staged is gone with the set-back, and decide() says so")
        process.run(0, _ids(0))
        restore = backup(rehearsal)
        process.run(1, _ids(1))
        prepared = process.prepare(2, _ids(2))
        restore()
        for committing in (process, rehearsal.start()):
            with pytest.raises(OncewardError):
                committing.commit(prepared)
            rehearsal.expect_visible(range(10), when="after a commit() on a target that was set back")
            _expect(committing, 0, "after a commit() on a target that was set back")


def _expect(process: Process, epoch: int, when: str) -> None:
    """At once; only where the sink decides may its own transaction need a moment until every reader sees its end."""
    deadline = time.monotonic() + (SETTLED_S if process.decides else 0)
    while time.monotonic() < deadline and not process.has_committed(epoch):
        time.sleep(0.02)
    process.expect_last_commit(epoch, when)


def remembering(rehearsal: Rehearsal) -> Process:
    process = rehearsal.start()
    if not process.sink.remembers:
        pytest.skip("the sink has remembers = False: it keeps no marker, and the pipeline's ledger counts alone")
    return process


def backup(rehearsal: Rehearsal) -> Restore:
    if rehearsal.under_test.backup is None:
        pytest.skip("SinkUnderTest(backup=...) is not given: nothing here can set the target back")
    return rehearsal.under_test.backup()


def _ids(epoch: int) -> range:
    return range(10 * epoch, 10 * epoch + 10)
