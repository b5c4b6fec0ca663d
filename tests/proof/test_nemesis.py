"""G1: what is done to a run is decided by a seed, and comes to every named point."""

import itertools
from collections import Counter

import pytest

from onceward import crashpoints
from onceward.proof.chaos.nemesis import NEEDS, Life, World, lives

ALL = World(brokers=3, postgres=True, sinks=4)


def first(count: int, seed: int = 1, world: World = ALL) -> list[Life]:
    return list(itertools.islice(lives(seed, world), count))


def test_the_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert first(60) == first(60)
    assert first(60) != first(60, seed=2)


@pytest.mark.parametrize("seed", range(5))
def test_a_deck_comes_to_every_named_point(seed: int) -> None:
    deck = first(len(crashpoints.POINTS) + len(NEEDS) + 5, seed)
    assert {life.point for life in deck} >= set(crashpoints.POINTS)


def test_points_of_a_start_follow_the_death_that_makes_work_for_it() -> None:
    some = first(300)
    for before, life in itertools.pairwise(some):
        if life.point in NEEDS and life.end == "kill":
            assert before.point == NEEDS[life.point]
            assert life.strikes == ()


def test_every_kind_of_fault_is_dealt() -> None:
    strikes = [strike for life in first(400) for strike in life.strikes]
    counts = Counter((strike.target, strike.how) for strike in strikes)
    network = {
        ("network", how) for how in ("cut", "half-close", "delay", "lose-answer", "lose-request", "late-request")
    }
    processes = itertools.product(("worker", "executor", "broker", "postgres"), ("kill", "pause"))
    assert set(counts) == network | set(processes)
    assert {strike.node for strike in strikes if strike.target == "broker"} == {1, 2, 3}
    assert {life.end for life in first(400)} == {"kill", "sleep"}


def test_what_is_not_there_is_not_broken() -> None:
    some = first(400, world=World(brokers=1, postgres=False, sinks=1))
    assert not any(strike.target == "postgres" or strike.database for life in some for strike in life.strikes)
    assert {strike.node for life in some for strike in life.strikes} == {1}
    assert not {"prepared", "committed", "resolving"} & {life.point for life in some if life.end == "kill"}


@pytest.mark.parametrize(
    ("guarantee", "points"), [("at-least-once", {"", "begun", "writing", "written"}), ("spark", {""})]
)
def test_a_job_without_two_phases_dies_where_it_can(guarantee: str, points: set[str]) -> None:
    some = first(100, world=World(brokers=1, postgres=True, sinks=2, guarantee=guarantee))
    assert {life.point for life in some} == points
    assert {life.end for life in some} == {"kill"}
