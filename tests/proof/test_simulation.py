"""Thousands of schedules of the real protocol in a hostile world: no promise is broken, and a seed replays exactly."""

from collections import Counter

import pytest

from onceward.proof.history import Ended
from onceward.proof.planted import PLANTS
from onceward.proof.simulation import fibres
from onceward.proof.simulation.campaign import campaign, explain, quick
from onceward.proof.simulation.exhaustive import MODEL, visit_all
from onceward.proof.simulation.schedule import FAULTS, SHAPES, Fault, Schedule, scheduled
from onceward.proof.simulation.simulate import simulate
from onceward.proof.simulation.story import condensed

SCHEDULES = 10_000


@pytest.mark.slow
def test_no_schedule_breaks_a_promise() -> None:
    """A1-A7, B1-B9, C1-C6, G2: crashes, power cuts, zombies, lost, late and doubled requests, over all pipelines."""
    tally = campaign(range(SCHEDULES))
    assert tally.violation is None
    assert tally.schedules == SCHEDULES
    assert {kind for kind, _ in tally.reached} == set(FAULTS)


@pytest.mark.slow
def test_no_schedule_of_the_small_model_breaks_a_promise() -> None:
    """G2: every pair of crashes and delays, at every step where it makes a difference."""
    tally = visit_all()
    assert tally.violation is None
    assert tally.schedules > 20_000


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_without_faults_one_driver_does_it_all(shape: object) -> None:
    run = next(simulate(Schedule(1, found)) for found in SHAPES if found is shape)
    assert run.violations == {}
    assert run.drivers == 1


def test_a_seed_replays_exactly() -> None:
    for seed in range(40):
        first: list[str] = []
        second: list[str] = []
        with quick():
            histories = [simulate(scheduled(seed), story=story).history for story in (first, second)]
        assert first == second
        assert histories[0] == histories[1]


def test_threads_run_the_same_schedules_as_greenlets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package greenlet only makes it quicker."""
    with quick():
        as_is = [simulate(scheduled(seed)).history for seed in range(60)]
        monkeypatch.setattr(fibres, "greenlet", None)
        on_threads = [simulate(scheduled(seed)).history for seed in range(60)]
    assert as_is == on_threads


def test_the_schedules_end_drivers_in_every_way_that_is_meant() -> None:
    """Else few of the hard places are reached."""
    ends: Counter[str] = Counter()
    with quick():
        for seed in range(1_500):
            ends.update(event.how for event in simulate(scheduled(seed)).history.events if isinstance(event, Ended))
    assert {"finished", "killed", "PipelineFenced", "SinkUnreachable", "OSError", "CommitUnproven"} <= set(ends)


def test_the_model_has_two_tasks_two_partitions_and_three_epochs() -> None:
    assert {(model.epochs, len(model.faults)) for model in MODEL} == {(3, 0)}
    assert {model.shape.kafka for model in MODEL} == {True, False}


def test_a_violation_is_shrunk_to_what_it_takes() -> None:
    """One kill is enough for this bug; the rest of the schedule goes away."""
    parts = PLANTS["prepared-not-written"].parts
    with quick():
        seed = next(seed for seed in range(2_000) if _long(simulate(scheduled(seed), parts)))
        found = explain(simulate(scheduled(seed), parts), parts)
    assert len(found.shortest.faults) < len(found.schedule.faults)
    assert found.shortest_broken
    assert any("!!" in line for line in found.story)


def _long(run: object) -> bool:
    return bool(run.violations) and len(run.schedule.faults) >= 4  # type: ignore[attr-defined]


def test_a_story_tells_waiting_in_circles_once() -> None:
    lines = [f"{step:4d}  driver 1: {('send x', 'answer x', 'wait 0.5 s')[step % 3]}" for step in range(90)]
    assert len(condensed(lines)) == 4


def test_faults_happen_where_the_schedule_says() -> None:
    story: list[str] = []
    with quick():
        run = simulate(Schedule(1, SHAPES[0], (Fault(40, "kill"), Fault(60, "pause"))), story=story)
    assert run.violations == {}
    assert [line[:4].strip() for line in story if "!! is" in line] == ["40", "60"]
