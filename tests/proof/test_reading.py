"""Thousands of schedules of reading and copying: production readers on a wire that does what real ones do."""

from collections import Counter
from dataclasses import replace

import pytest

from onceward.errors import BrokerRefused, PartitionSilent
from onceward.kafka.cursor import OffsetsMissing
from onceward.proof.planted import PLANTS
from onceward.proof.simulation.campaign import quick
from onceward.proof.simulation.patching import patched
from onceward.proof.simulation.reading.campaign import campaign
from onceward.proof.simulation.reading.checking import Broken, Excuses, Seen, compared, judged
from onceward.proof.simulation.reading.schedule import FETCHING, SENDING, WHO, Schedule, Trouble, scheduled
from onceward.proof.simulation.reading.simulate import simulate

SCHEDULES = 3_000


@pytest.mark.slow
def test_no_schedule_breaks_a_promise() -> None:
    """A1, A2, A6, C1, E9: exactly the records of a range, or a named error that something excuses."""
    tally = campaign(range(SCHEDULES))
    assert tally.violation is None
    assert tally.schedules == SCHEDULES
    assert tally.reached >= {(who, kind) for who in WHO for kind in FETCHING}
    assert tally.reached >= {("copies", kind) for kind in SENDING}
    assert set(tally.ended) == {"whole", "BrokerRefused", "OffsetsMissing", "PartitionSilent", "InputGone"}


def test_a_seed_replays_exactly() -> None:
    for seed in range(60):
        stories: tuple[list[str], list[str]] = ([], [])
        with quick():
            runs = [simulate(scheduled(seed), story) for story in stories]
        assert runs[0] == runs[1]
        assert stories[0] == stories[1]


@pytest.mark.parametrize("who", WHO)
def test_without_troubles_all_is_read(who: str) -> None:
    """But for what only Spark reads, gaps that nobody has told of, and ranges whose last batches are cleaned away right
    before an open transaction: until it ends no batch says that there is nothing more."""
    ended: Counter[str] = Counter()
    with quick():
        for seed in range(100):
            run = simulate(Schedule(seed, who))
            assert run.violations == {}
            ended[run.ended] += 1
    assert ended["whole"] > 60
    assert set(ended) <= {"whole", "BrokerRefused", "OffsetsMissing", "PartitionSilent"}


def test_two_processes_find_the_same_as_one() -> None:
    """G2: and what breaks a promise is told with the troubles that it takes."""
    patches = PLANTS["quota-is-silence"].patches
    one, two = (campaign(range(2_000), patches, jobs=jobs) for jobs in (1, 2))
    assert one == two
    assert one.violation is not None
    assert "throttle" in {it.kind for it in one.violation.shortest.troubles}
    assert len(one.violation.shortest.troubles) <= len(one.violation.schedule.troubles)
    assert any("!! throttle" in line for line in one.violation.story)


def test_a_bug_is_gone_when_its_run_is_over() -> None:
    patches = PLANTS["silence-is-the-end"].patches
    schedule = next(
        Schedule(seed, "records", (Trouble(0, "empty"),))
        for seed in range(50)
        if simulate(replace(scheduled(seed), who="records", troubles=())).requests
    )
    with patched(patches):
        assert "no-loss" in simulate(schedule).violations
    assert simulate(schedule).violations == {}


class TestJudging:
    """G3: each checker can fail, and does so only where it should."""

    def test_what_came_is_compared_with_what_had_to_come(self) -> None:
        assert compared(Seen("t-0", "abc", "abc")) == {}
        assert set(compared(Seen("t-0", "abc", "ac"))) == {"no-loss"}
        assert set(compared(Seen("t-0", "abc", "ab"))) == {"no-loss"}
        assert set(compared(Seen("t-0", "abc", "abbc"))) == {"no-duplicate"}
        assert set(compared(Seen("t-0", "abc", "abcd"))) == {"no-duplicate"}
        assert set(compared(Seen("t-0", "abc", "acb"))) == {"order"}

    def test_before_an_error_nothing_may_be_left_out(self) -> None:
        assert compared(Seen("t-0", "abc", "", is_whole=False)) == {}
        assert compared(Seen("t-0", "abc", "ab", is_whole=False)) == {}
        assert set(compared(Seen("t-0", "abc", "ac", is_whole=False))) == {"no-loss"}
        assert set(compared(Seen("t-0", "abc", "aba", is_whole=False))) == {"no-duplicate"}

    @pytest.mark.parametrize(
        ("error", "excuse"),
        [
            (BrokerRefused("gone"), Excuses(refused=True)),
            (OffsetsMissing("gap"), Excuses(missing=True)),
            (PartitionSilent("late"), Excuses(silent_s=15, throttled_s=9, patience_s=5)),
        ],
    )
    def test_an_error_needs_a_name_and_a_reason(self, error: Exception, excuse: Excuses) -> None:
        assert judged(error, [Excuses(patience_s=5), excuse]) == {}
        assert set(judged(error, [Excuses(silent_s=13, throttled_s=9, patience_s=5)])) == {"no-false-alarm"}
        assert set(judged(IndexError("0"), [excuse])) == {"named-error"}
        assert set(judged(Broken("no-empty-call", "nothing"), [excuse])) == {"no-empty-call"}
