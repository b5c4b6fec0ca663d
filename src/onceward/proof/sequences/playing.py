"""One sequence: each action is carried out, compared with the model at once, and everything once more in the end."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from onceward.proof.sequences.actions import Action, Result
from onceward.proof.sequences.choosing import Sequence
from onceward.proof.sequences.effects import apply, feed
from onceward.proof.sequences.outputs import differences
from onceward.proof.sequences.world import KAFKA, Pipeline


class Hands(Protocol):
    """Who carries actions out, and reads what came of them."""

    def perform(self, action: Action) -> Result:
        """Feed, do it, and say how it went."""

    def visible(self, pipeline: int, sink: str) -> Counter[str]:
        """What a reader of that sink finds."""


@dataclass(slots=True)
class Told:
    """What has happened in one sequence."""

    seed: int
    steps: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    unreached: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)
    epochs: int = 0  # that were committed by drivers that lived to tell
    records: int = 0  # compared, those of each comparison


def play(seed: int, hands: Hands, report: Callable[[str], None] = lambda _: None) -> Told:
    """To its end, or to the first thing that is not as it must be."""
    sequence, told = Sequence(seed), Told(seed)
    while not told.faults and (action := sequence.next()) is not None:
        feed(sequence.world, action)
        result = hands.perform(action)
        _note(told, action, result)
        report(f"{len(told.steps):3d}  {told.steps[-1]}")
        told.faults += apply(sequence.world, action, result)
        if not told.faults:
            sequence.done(action, result)
            for pipeline in sequence.world.pipelines[action.pipeline : action.pipeline + 1]:
                told.faults += compared(pipeline, hands, told, passing=(KAFKA,))
    if not told.faults:  # else the model does not know where the pipelines are
        told.faults += [it for pipeline in sequence.world.pipelines for it in compared(pipeline, hands, told)]
    return told


def compared(pipeline: Pipeline, hands: Hands, told: Told, passing: tuple[str, ...] = ()) -> list[str]:
    """What is wrong in the outputs of a pipeline, unless a kill has left it in between."""
    if pipeline.wreck is not None:
        return []
    found: list[str] = []
    for sink, wanted in pipeline.outputs.items():
        if sink not in passing:
            told.records += wanted.total()
            found += [
                f"p{pipeline.number}, {sink}: {it}" for it in differences(wanted, hands.visible(pipeline.number, sink))
            ]
    return found


def _note(told: Told, action: Action, result: Result) -> None:
    told.actions[action.kind] += 1
    told.epochs += result.epochs
    if result.died and action.kill is not None:
        told.kills[action.kill.point] += 1
    elif action.kill is not None and not result.refused:
        told.unreached[action.kill.point] += 1
    if result.refused:
        told.refusals[result.refused] += 1
    how = "killed" if result.died else f"refused: {result.refused}" if result.refused else "done"
    at = f", of {list(result.position)}" if result.position is not None else ""
    told.steps.append(f"{action}: {how}{at}")
