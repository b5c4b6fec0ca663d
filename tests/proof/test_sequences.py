"""Sequences of what people do: the model against hands that are right, or wrong in one way each; and for real."""

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from onceward.cli.main import app
from onceward.errors import ConfigurationError
from onceward.proof.sequences import report
from onceward.proof.sequences.actions import DECIDED, OF_EPOCHS, POINTS, Action, Kill, Result
from onceward.proof.sequences.campaign import Found, Plan
from onceward.proof.sequences.choosing import Sequence
from onceward.proof.sequences.effects import apply, feed
from onceward.proof.sequences.expecting import OUTDATED, expected, savable
from onceward.proof.sequences.outputs import differences, value_of
from onceward.proof.sequences.playing import play
from onceward.proof.sequences.world import KAFKA, Log, Moment, Pipeline

SEEDS = 400
NEWEST = 1_000_000  # a record that no sink was to get


class Right:
    """Does what the model says, in a world of its own."""

    def __init__(self, seed: int) -> None:
        self.world = Sequence(seed).world

    def perform(self, action: Action) -> Result:
        feed(self.world, action)
        if must := sorted(expected(self.world, action).must):
            return self.refuse(action, must[0])
        position = None
        if action.kind == "save":
            pipeline = self.world.pipelines[action.pipeline]
            position = next(pipeline.moments[it].position for it in savable(pipeline) if it is not None)
        result = Result(died=action.kill is not None, position=position)
        self.carry_out(action, result)
        return result

    def refuse(self, _action: Action, error: str) -> Result:
        return Result(refused=error)

    def carry_out(self, action: Action, result: Result) -> None:
        assert apply(self.world, action, result) == []

    def visible(self, pipeline: int, sink: str) -> Counter[str]:
        ids = self.world.pipelines[pipeline].outputs.get(sink, Counter())
        return Counter({value_of(number): count for number, count in ids.items()})


class ForgetsState(Right):
    """A restore brings the positions back, and an empty state."""

    def carry_out(self, action: Action, result: Result) -> None:
        if action.kind in ("restore", "fork") and not result.died and action.savepoint is not None:
            saved = self.world.saved[action.savepoint]
            self.world.saved[action.savepoint] = replace(saved, moment=replace(saved.moment, state=frozenset()))
        super().carry_out(action, result)


class KeepsStateAtAReset(Right):
    def carry_out(self, action: Action, result: Result) -> None:
        pipeline = self.world.pipelines[action.pipeline] if action.pipeline < len(self.world.pipelines) else None
        state = pipeline.now.state if pipeline is not None else frozenset[int]()
        super().carry_out(action, result)
        if action.kind == "reset" and not result.died and pipeline is not None:
            pipeline.moments[-1] = replace(pipeline.now, state=state)


class LosesTheKilledEpoch(Right):
    def carry_out(self, action: Action, result: Result) -> None:
        super().carry_out(action, result)
        pipeline = self.world.pipelines[action.pipeline] if action.pipeline < len(self.world.pipelines) else None
        if pipeline is not None and result.died and pipeline.planned is not None:
            fresh = frozenset(self.world.log.between(pipeline.now.position, pipeline.planned))
            pipeline.moments[-1] = replace(pipeline.now, state=pipeline.now.state | fresh)


class DoublesTheDecidedEpoch(Right):
    def carry_out(self, action: Action, result: Result) -> None:
        super().carry_out(action, result)
        if result.died and action.kill is not None and action.kill.point in DECIDED:
            pipeline = self.world.pipelines[action.pipeline]
            before, now = pipeline.moments[-2:]
            pipeline.outputs[action.sinks[0]].update(now.state - before.state)


class GivesASinkWhatItMissed(Right):
    def carry_out(self, action: Action, result: Result) -> None:
        super().carry_out(action, result)
        for pipeline in self.world.pipelines:
            for sink, ids in pipeline.outputs.items():
                if sink in pipeline.sinks and pipeline.wreck is None:
                    ids.update(pipeline.now.state - set(ids))


class RestoresTheNewest(Right):
    """Whichever savepoint is asked for."""

    def carry_out(self, action: Action, result: Result) -> None:
        if action.kind == "restore" and action.savepoint is not None and not result.died:
            saved, now = self.world.saved[action.savepoint], self.world.pipelines[action.pipeline].now
            moment = Moment(now.position, now.state, saved.moment.held, saved.moment.epochs)
            self.world.saved[action.savepoint] = replace(saved, moment=moment)
        super().carry_out(action, result)


class RefusesNothing(Right):
    def refuse(self, action: Action, error: str) -> Result:
        return Result() if error == OUTDATED else super().refuse(action, error)


class RefusesWhatFits(Right):
    def perform(self, action: Action) -> Result:
        result = super().perform(action)
        return Result(refused=OUTDATED) if action.kind == "restore" and not (result.refused or result.died) else result


class RefusesForAnotherReason(Right):
    def refuse(self, action: Action, error: str) -> Result:
        return super().refuse(action, "LedgerCorrupt" if error == OUTDATED else error)


class SavesAnotherEpoch(Right):
    def perform(self, action: Action) -> Result:
        result = super().perform(action)
        return replace(result, position=(NEWEST,)) if result.position is not None else result


class WritesWhatNobodyFed(Right):
    def visible(self, pipeline: int, sink: str) -> Counter[str]:
        return super().visible(pipeline, sink) + Counter({value_of(NEWEST): sink == KAFKA})


WRONG: dict[type[Right], str] = {
    ForgetsState: "too often",
    KeepsStateAtAReset: "lost",
    LosesTheKilledEpoch: "lost",
    DoublesTheDecidedEpoch: "too often",
    GivesASinkWhatItMissed: "not to be there",
    RestoresTheNewest: "lost",
    RefusesNothing: "absent refusal",
    RefusesWhatFits: "unexpected refusal SavepointOutdated",
    RefusesForAnotherReason: "unexpected refusal LedgerCorrupt",
    SavesAnotherEpoch: "savepoint",
    WritesWhatNobodyFed: "not to be there",
}


def test_hands_that_are_right_find_every_sequence_exact() -> None:
    told = [play(seed, Right(seed)) for seed in range(SEEDS)]
    assert [it.faults for it in told if it.faults] == []
    assert sum((it.records for it in told), 0) > SEEDS
    kinds, kills, refusals = (
        sum((getattr(it, name) for it in told), Counter()) for name in ("actions", "kills", "refusals")
    )
    assert min(kinds.values()) > 10
    assert set(kills) == set(POINTS)
    assert {"SavepointOutdated", "SavepointUnusable", "ConfigurationError", "ResetRefused"} <= set(refusals)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda it: it.__name__)
def test_hands_that_are_wrong_are_caught(wrong: type[Right]) -> None:
    """A checker must be able to fail: each of these in the way that is its own."""
    faults = (fault for seed in range(SEEDS) for fault in play(seed, wrong(seed)).faults)
    assert any(WRONG[wrong] in fault for fault in faults)


def test_a_seed_is_a_sequence() -> None:
    assert [play(seed, Right(seed)).steps for seed in range(20)] == [
        play(seed, Right(seed)).steps for seed in range(20)
    ]


def test_epochs_end_where_sparks_source_ends_them() -> None:
    """Each partition gets a share of the limit, a small one at least a record."""
    log = Log(partitions=2, limit=10, ids=[[*range(30)], [100]])
    assert log.epochs((0, 0), None) == [(9, 1), (19, 1), (29, 1), (30, 1)]
    assert log.epochs((0, 0), (4, 0))[:2] == [(4, 0), (13, 1)]
    assert log.epochs((30, 1), None) == []


def test_a_sink_that_is_out_misses_what_goes_by() -> None:
    log = Log(partitions=1, limit=10, ids=[[1, 2, 2, 3]])
    pipeline = Pipeline(0, (KAFKA, "files"), 1)
    pipeline.commit(log, (2,), (KAFKA, "files"))
    pipeline.commit(log, (4,), (KAFKA,))
    assert pipeline.outputs == {KAFKA: Counter([1, 2, 3]), "files": Counter([1, 2])}
    assert pipeline.held == {KAFKA: (0, 2), "files": (0, 1)}


def test_differences_are_named_record_by_record() -> None:
    wanted, found = Counter([1, 2, 3]), Counter([value_of(2), value_of(2), value_of(3), value_of(4)])
    lost, often, strange = differences(wanted, found)
    assert lost == f"1 lost: {value_of(1)}"
    assert often == f"1 too often: {value_of(2)}"
    assert strange == f"1 not to be there: {value_of(4)}"
    assert differences(wanted, Counter(map(value_of, wanted))) == []


def test_kills_are_at_points_that_a_run_comes_to() -> None:
    """In each epoch of those to come, and at none that its sinks do not have."""
    for seed in range(SEEDS):
        told: list[Action] = []

        class Noting(Right):
            def perform(self, action: Action, told: list[Action] = told) -> Result:
                told.append(action)
                return super().perform(action)

        play(seed, Noting(seed))
        for action in told:
            if action.kill is not None and action.kill.point in ("prepared", "marked"):
                assert KAFKA in action.sinks
            if action.kill is not None and action.kill.point in OF_EPOCHS:
                assert action.kill.nth >= action.kill.epoch or action.kill == Kill("writing")


def test_a_campaign_has_a_job_of_its_own() -> None:
    ended = CliRunner().invoke(app, ["prove", "orders.py", "--sequences", "3"])
    assert isinstance(ended.exception, ConfigurationError)


def test_the_report_names_what_is_broken_and_how_to_see_it_again() -> None:
    found = Found(Plan(seed=7, sequences=2))
    found.add(play(7, Right(7)))
    assert report.text(found).startswith("EXACT: 1 sequences")
    found.add(next(told for seed in range(SEEDS) if (told := play(seed, ForgetsState(seed))).faults))
    text = report.text(found)
    assert text.startswith("VIOLATION: 1 of 2 sequences")
    assert f"again: onceward prove --sequences 1 --seed {found.broken[0].seed}" in text
    facts = report.facts(found)
    assert (facts["exact"], facts["sequences"]) == (False, 2)


def prove(*arguments: str) -> dict[str, Any]:
    told = subprocess.run(
        [sys.executable, "-m", "onceward", "prove", *arguments, "--json"], capture_output=True, check=False, text=True
    )
    if kept := re.search(r"are kept in (\S+)", told.stderr):
        shutil.rmtree(kept[1])
    assert told.returncode == 0, f"exit {told.returncode}\n{told.stderr[-4000:]}\n{told.stdout[-3000:]}"
    found: dict[str, Any] = json.loads(told.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_real_sequences_with_kills_are_exact() -> None:
    """G1, E6, E7: savepoints, restores and kills on real servers; every sink holds what the model says."""
    found = prove("--sequences", "3", "--seed", "788")
    assert found["exact"]
    assert found["sequences"] == 3
    assert sum(found["kills"].values()) >= 1
    assert found["unreached"] == {}
    assert found["records"] > 0
