"""Thousands of schedules of the real protocol in a hostile world: no promise is broken, and a seed replays exactly."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from onceward.epoch.contract import Guarantee
from onceward.proof.history import Ended, History
from onceward.proof.planted import PLANTS
from onceward.proof.simulation import fibres
from onceward.proof.simulation.campaign import Violation, campaign, explain, quick
from onceward.proof.simulation.engine import PARTITIONS
from onceward.proof.simulation.exhaustive import FULL, MODELS, Bound, Visitor, visit_all
from onceward.proof.simulation.model import Model
from onceward.proof.simulation.patching import Patches
from onceward.proof.simulation.people import People
from onceward.proof.simulation.schedule import BY_NAME, FAULTS, SHAPES, Fault, Schedule, scheduled
from onceward.proof.simulation.simulate import simulate
from onceward.proof.simulation.store import TASKS
from onceward.proof.simulation.story import condensed

SCHEDULES = 5_000


@pytest.mark.slow
def test_no_schedule_breaks_a_promise() -> None:
    """A1-A7, B1-B9, C1-C6, G2: crashes, power cuts, zombies, lost, late and doubled requests, over all pipelines."""
    tally = campaign(range(SCHEDULES))
    assert tally.violation is None
    assert tally.schedules == SCHEDULES
    assert {kind for kind, _ in tally.reached} == set(FAULTS)


@pytest.mark.slow
def test_no_way_of_the_small_model_breaks_a_promise() -> None:
    """G2: every pair of crashes and delayed messages, at every moment, with every moment of arrival."""
    census = visit_all()
    assert census.violation is None
    assert census.moments > 90_000
    assert census.starts > 10_000


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


def test_the_model_has_two_tasks_two_partitions_and_three_epochs_and_the_full_bound_two_of_each_event() -> None:
    assert {(model.epochs, len(model.faults)) for model in MODELS} == {(3, 0)}
    assert {model.shape.kafka for model in MODELS} == {True, False}
    assert (TASKS, PARTITIONS) == (2, 2)
    assert [(bound.crashes, bound.delays) for bound in FULL] == [(2, 2)]


@pytest.mark.parametrize(
    "plant",
    ["identity-kept", "prepared-not-written", "abort-after-unknown", "clean-up-in-doubt"],
)
def test_the_search_finds_a_planted_bug_and_the_schedule_that_shows_it(plant: str) -> None:
    """G3: what the search found as a way through its model breaks the same promise as a plain schedule."""
    patches = PLANTS[plant].patches
    with quick():
        found = next(
            filter(None, (_violation(model, patches) for model in MODELS if PLANTS[plant].shows_in(model.shape)))
        )
        again = simulate(found.shortest, patches)
    assert again.violations == found.shortest_broken
    assert {fault.kind for fault in found.shortest.faults} <= {"kill", "delay"}


def _violation(model: Schedule, patches: Patches) -> Violation | None:
    visitor = Visitor(model, patches)
    visitor.visit((Bound(crashes=1, delays=1),))
    return visitor.census.violation


@pytest.mark.parametrize("name", ["store", "kafka", "kafka+store"])
def test_wherever_a_plain_schedule_ends_the_search_has_been(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """G2: what the search does not go on from, because it knows the like of it, hides no end."""
    schedule, dice = Schedule(2, BY_NAME[name]), Random(11)
    ends: set[str] = set()
    judge = Model.end

    def end(model: Model) -> tuple[History, Mapping[str, list[str]]]:
        history, broken = judge(model)
        ends.add(_end(history))
        return history, broken

    monkeypatch.setattr(Model, "end", end)
    with quick():
        Visitor(schedule).visit((Bound(crashes=1, delays=1),))
        steps = simulate(schedule).steps
        for _ in range(400):
            delay = Fault(dice.randrange(steps), "delay", 4 * dice.randrange(50))
            crash = Fault(dice.randrange(2 * steps), "kill")
            run = simulate(replace(schedule, faults=tuple(sorted((delay, crash)))))
            assert _end(run.history) in ends, run.schedule.faults
    assert len(ends) > 5


def _end(history: History) -> str:
    """What readers find, and whose tries it came from."""
    return repr((sorted(history.sinks.items()), history.decisions, history.group))


def test_two_processes_find_the_same_as_one() -> None:
    """G2: also where a promise is broken, the lowest seed is the one that is reported."""
    patches = PLANTS["slot-left-open"].patches
    one, two = (campaign(range(2_500), patches, jobs=jobs) for jobs in (1, 2))
    assert one == two
    assert one.violation is not None


def test_a_violation_is_shrunk_to_what_it_takes() -> None:
    """One kill is enough for this bug; the rest of the schedule goes away."""
    patches = PLANTS["prepared-not-written"].patches
    with quick():
        seed = next(seed for seed in range(2_000) if _long(simulate(scheduled(seed), patches)))
        found = explain(simulate(scheduled(seed), patches), patches)
    assert len(found.shortest.faults) < len(found.schedule.faults)
    assert found.shortest_broken
    assert any("!!" in line for line in found.story)


def _long(run: object) -> bool:
    return bool(run.violations) and len(run.schedule.faults) >= 4  # type: ignore[attr-defined]


def test_a_story_tells_waiting_in_circles_once() -> None:
    lines = [f"{step:4d}  driver 1: {('send x', 'answer x', 'wait 0.5 s')[step % 3]}" for step in range(90)]
    assert len(condensed(lines)) == 4


def test_who_does_not_know_the_last_sinks_starts_with_all_of_them() -> None:
    """A driver that wrote down where its term begins, and died before anybody saw it run."""
    people = People()
    people.ended("ConfigurationError")
    assert people.sinks is None
    people.doors.sinks_of_last = lambda: frozenset({"kafka"})
    people.ended("ConfigurationError")
    assert people.sinks == {"kafka"}


def test_records_that_were_passed_over_by_an_epoch_that_was_given_up_are_known() -> None:
    """At-most-once: the ledger has no entry of it, what was begun says it."""
    for step in range(150, 165):
        faults = (Fault(13, "skip", 11), Fault(step, "kill"))
        schedule = Schedule(42_537, BY_NAME["store"], faults, 2, guarantee=Guarantee.AT_MOST_ONCE, sources=2)
        with quick():
            assert simulate(schedule).violations == {}


def test_faults_happen_where_the_schedule_says() -> None:
    story: list[str] = []
    with quick():
        run = simulate(Schedule(1, SHAPES[0], (Fault(40, "kill"), Fault(60, "pause"))), story=story)
    assert run.violations == {}
    assert [line[:4].strip() for line in story if "!! is" in line] == ["40", "60"]
