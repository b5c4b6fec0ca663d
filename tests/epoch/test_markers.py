"""A sink that forgets what it has confirmed is noticed before the next epoch (J6)."""

import pytest

from epoch.scripted import Deciding, Scripted, World
from onceward.epoch.contract import LastCommit, TwoPhaseCommitSink
from onceward.epoch.markers import Markers
from onceward.errors import HomeMismatch, MarkerMissing


def last(epoch: int, lineage: str = "L") -> LastCommit:
    return LastCommit(lineage=lineage, epoch=epoch, term=1)


class Answers(Scripted):
    """Says what it is told to."""

    now: LastCommit | None = None

    def last_commit(self) -> LastCommit | None:
        return self.now


class AnswersAndDecides(Deciding):
    now: LastCommit | None = None

    def last_commit(self) -> LastCommit | None:
        return self.now


@pytest.fixture
def table() -> Answers:
    return Answers(World(), "table")


def check(sink: TwoPhaseCommitSink, was: LastCommit | None) -> None:
    Markers("p", "L", {"table": was}).require({"table": sink})


def test_a_sink_that_holds_what_it_held_agrees(table: Answers) -> None:
    for held in (None, last(10)):
        table.now = held
        check(table, held)


@pytest.mark.parametrize("now", [None, last(7), last(9)])
def test_one_that_was_set_back_or_lost_its_marker_is_named_with_both_epochs(
    table: Answers, now: LastCommit | None
) -> None:
    table.now = now
    says = "has no marker any more" if now is None else f"now says {now.epoch}"
    with pytest.raises(MarkerMissing, match=rf"'table' confirmed epoch 10 of 'p'.*{says}.*--trust-ledger"):
        check(table, last(10))


def test_one_that_holds_more_than_was_committed_has_another_writer(table: Answers) -> None:
    table.now = last(11)
    with pytest.raises(HomeMismatch, match=r"holds epoch 11.*only up to 10.*somebody else writes"):
        check(table, last(10))


def test_one_that_another_home_writes_to_is_named(table: Answers) -> None:
    table.now = last(10, "other")
    with pytest.raises(HomeMismatch, match=r"lineage other: another home runs under the same name"):
        check(table, last(10))


def test_a_decider_that_lost_even_its_first_marker_is_noticed() -> None:
    """Before its first epoch it holds epoch -1."""
    sink = AnswersAndDecides(World(), "table")
    with pytest.raises(MarkerMissing, match="has no marker any more"):
        check(sink, last(-1))


def test_a_sink_without_a_memory_is_not_asked() -> None:
    class Forgetful(Scripted):
        remembers = False

    check(Forgetful(World(), "table"), None)  # its last_commit() raises


def test_what_was_committed_is_expected_from_then_on(table: Answers) -> None:
    markers = Markers("p", "L", {"table": None})
    markers.note(last(0), {"table": table})
    assert markers.last("table") == last(0)
    with pytest.raises(MarkerMissing):
        markers.require({"table": table})
