"""Cases in which the target knows of other work: an older lineage's, a stranger's, another sink's.

Their epochs have the same numbers, so a sink that compares numbers alone takes another's epoch for its own, and passes
over rows.
"""

from contextlib import suppress
from typing import Final

import pytest

from onceward.epoch.contract import DecidingSink
from onceward.epoch.recovery import require_ours
from onceward.errors import ForeignLineage, MarkerMissing, PipelineFenced, StagingLost, TargetUnusable
from onceward.testing.memory import backup, remembering
from onceward.testing.rehearsal import Process, Rehearsal
from onceward.testing.zombies import try_to_publish

OLD: Final = 3  # epochs of the lineage that is over
NEVER: Final = range(900, 910)  # rows that must never be seen


class Lineages:
    """An epoch is known by pipeline, sink, lineage and number."""

    @pytest.mark.parametrize("input_rows", [10, None], ids=["short way", "long way"])
    def test_a_new_lineages_epochs_are_added_to_an_older_ones(
        self, rehearsal: Rehearsal, input_rows: int | None
    ) -> None:
        """After a restore or a reset the sink holds epoch N of the old lineage, and gets epochs 0 to N of the new."""
        _begin_anew(rehearsal)
        process = rehearsal.start()
        process.mark_beginning()
        for epoch in range(OLD + 1):
            when = f"after epoch {epoch} of a second lineage, which follows epoch {OLD - 1} of the first"
            prepared = process.run(epoch, _ids(OLD + epoch), input_rows=input_rows)
            rehearsal.expect_visible(_upto(OLD + epoch), when=when)
            rehearsal.expect_nothing_staged(when)
            process.expect_last_commit(epoch, when)
            process.commit(prepared)
            rehearsal.expect_visible(_upto(OLD + epoch), when=f"{when}, and another commit() of it")

    def test_crashes_in_a_new_lineages_first_epochs_are_made_good(self, rehearsal: Rehearsal) -> None:
        """Requirements B4, B5: what was not decided is redone, what was is finished, each by another process."""
        _begin_anew(rehearsal)
        rehearsal.start().mark_beginning()
        for epoch in range(OLD):
            when = f"after crashes in epoch {epoch} of a second lineage"
            rehearsal.start().prepare(epoch, NEVER)
            process = rehearsal.start()
            process.abort(epoch)
            rehearsal.expect_nothing_staged(f"{when}, and abort() by the next process")
            prepared = process.decide_for_good(process.prepare(epoch, _ids(OLD + epoch)))
            heir = rehearsal.start()
            heir.commit(prepared)
            rehearsal.expect_visible(_upto(OLD + epoch), when=f"{when}, and commit() by the next process")
            heir.expect_last_commit(epoch, when)

    @pytest.mark.parametrize("home", ["the same home", "a new home"])
    def test_a_driver_of_an_older_lineage_that_wakes_changes_nothing(self, rehearsal: Rehearsal, home: str) -> None:
        """Requirement C6: it slept through the restore or the reset. In a new home terms begin anew: its is higher."""
        zombie = [rehearsal.start() for _ in range(OLD)][-1]
        old = zombie.run(0, _ids(0))
        rehearsal.begin_lineage(zombie.last_commit(), in_a_new_home=home == "a new home")
        process = rehearsal.start()
        process.mark_beginning()
        for epoch in range(2):
            prepared = process.prepare(epoch, _ids(1 + epoch))
            when = f"with a driver of the old lineage that woke before the commit of epoch {epoch} of the new one"
            try_to_publish(zombie, 1, NEVER)
            with suppress(PipelineFenced, StagingLost):  # or it finds its epoch committed
                zombie.commit(old)
            with suppress(PipelineFenced):  # or it finds nothing of its own
                zombie.abort(OLD)
            rehearsal.expect_visible(_upto(epoch), when=when)
            process.publish(prepared)
            rehearsal.expect_visible(_upto(1 + epoch), when=when)
            process.expect_last_commit(epoch, when)

    def test_a_start_of_a_lineage_that_the_target_does_not_know_is_refused(self, rehearsal: Rehearsal) -> None:
        """By `open`, or because `last_commit` tells whose the target is; and nobody is fenced by such a start."""
        process = remembering(rehearsal)
        process.run(0, _ids(0))
        context = process.begin(1)
        outcome = process.write(context, _ids(1))
        with pytest.raises(ForeignLineage):
            _start_another_home(rehearsal)
        process.publish(process.pre_commit(context, outcome, _ids(1)))
        rehearsal.expect_visible(_upto(1), when="after a start of another lineage, which was refused")
        process.expect_last_commit(1, "after a start of another lineage, which was refused")

    def test_nothing_is_added_if_what_the_older_lineage_left_was_set_back(self, rehearsal: Rehearsal) -> None:
        """A new lineage's first epoch follows what the older one had committed last, and that is gone."""
        process = remembering(rehearsal)
        if process.decides:
            pytest.skip("the sink decides by itself: what was staged is gone with the set-back, and decide() says so")
        process.run(0, _ids(0))
        restore = backup(rehearsal)
        process.run(1, _ids(1))
        rehearsal.begin_lineage(process.last_commit())
        heir = rehearsal.start()
        heir.last_commit()
        prepared = heir.prepare(0, _ids(2))
        restore()
        for _ in range(2):
            with pytest.raises((MarkerMissing, PipelineFenced, StagingLost)):
                heir.commit(prepared)
            rehearsal.expect_visible(_upto(0), when="after a commit() on a target that was set back")

    def test_two_sinks_of_one_pipeline_are_apart_in_one_target(self, rehearsal: Rehearsal) -> None:
        """All rows of both, or the second one is refused at its start."""
        one = rehearsal.start()
        if one.decides:
            pytest.skip("the sink decides by itself: a pipeline has one such sink at most")
        _write_beside(rehearsal, one, sink="another")

    def test_two_pipelines_are_apart_in_one_target(self, rehearsal: Rehearsal) -> None:
        """All rows of both, or the second one is refused at its start."""
        _write_beside(rehearsal, rehearsal.start(), pipeline=f"{rehearsal.pipeline}-another")


def _begin_anew(rehearsal: Rehearsal) -> None:
    """A lineage with `OLD` epochs, and then a restore or a reset: the next one begins."""
    process = rehearsal.start()
    for epoch in range(OLD):
        process.run(epoch, _ids(epoch))
    rehearsal.begin_lineage(process.last_commit())


def _write_beside(rehearsal: Rehearsal, one: Process, **whose: str) -> None:
    """Epochs of one and of another, at the same time."""
    one.run(0, _ids(0))
    try:
        another = rehearsal.start(**whose)
    except TargetUnusable:
        one.run(1, _ids(1))
        rehearsal.expect_visible(_upto(1), when=f"after {whose} was refused")
        return
    when = f"with {whose} in the same target"
    assert another.last_commit() is None, f"{when}, its last_commit() tells what the first one committed"
    mine, others = one.prepare(1, _ids(1)), another.prepare(0, _ids(2))
    another.publish(others)
    another.abort(1)
    one.publish(mine)
    rehearsal.expect_visible(_upto(2), when=when)
    rehearsal.expect_nothing_staged(when)
    one.expect_last_commit(1, when)
    another.expect_last_commit(0, when)


def _start_another_home(rehearsal: Rehearsal) -> None:
    """As a pipeline starts: whoever decides is asked before it is opened, since that fences."""
    sink, owner = rehearsal.under_test.make(), rehearsal.owner(lineage="another")
    if isinstance(sink, DecidingSink) and (last := sink.peek(owner.pipeline)) is not None:
        require_ours(owner, owner.sink, last)
    last = rehearsal.adopt(sink, lineage="another").last_commit()
    if last is not None:
        require_ours(owner, owner.sink, last)


def _ids(part: int) -> range:
    return range(10 * part, 10 * part + 10)


def _upto(part: int) -> range:
    return range(10 * part + 10)
