"""Which refusals an action must meet, or may, in the world as it is. Pure.

A refusal is a promise, too: one that does not come lets a sink get records twice, or lose some. Where Onceward may be
more careful than records demand (a marker that was written anew, a thread that was not quick enough to record an
epoch), both are right.
"""

from dataclasses import dataclass, field
from typing import Final

from onceward.proof.sequences.actions import Action
from onceward.proof.sequences.world import KAFKA, Pipeline, Saved, World

CONFIGURATION: Final = "ConfigurationError"
DROPPED: Final = "CheckpointDropped"
OUTDATED: Final = "SavepointOutdated"
UNUSABLE: Final = "SavepointUnusable"
REFUSED: Final = "ResetRefused"


@dataclass(slots=True)
class Expected:
    """By the errors' classes. With any in `must` it has to be refused, with one of either."""

    must: set[str] = field(default_factory=set)
    may: set[str] = field(default_factory=set)

    def fault(self, refused: str, message: str) -> str | None:
        """What is wrong with an answer, in words."""
        if refused and refused not in self.must | self.may:
            wanted = f", expected was {' or '.join(sorted(self.must | self.may))}" if self.must | self.may else ""
            return f"unexpected refusal {refused}{wanted}: {message}"
        if not refused and self.must:
            return f"absent refusal: it had to be refused with {' or '.join(sorted(self.must))}, and was done"
        return None


def expected(world: World, action: Action) -> Expected:
    """What to expect, were nobody killed."""
    found = Expected()
    if action.pipeline >= len(world.pipelines):
        return found
    pipeline = world.pipelines[action.pipeline]
    if action.kind == "delete":
        return found
    if action.kind == "run" and pipeline.ended:
        found.must.add(DROPPED)
        return found
    if action.kind == "save":
        moments = savable(pipeline)
        if None in moments:
            (found.must if len(moments) == 1 else found.may).add(UNUSABLE)
        return found
    _without_kafka(pipeline, action.sinks, found)
    if action.kind == "run":
        _in_doubt_at_a_run(pipeline, action.sinks, found)
    else:
        _in_doubt(pipeline, UNUSABLE if action.kind in ("restore", "fork") else REFUSED, found)
    if action.kind in ("restore", "fork") and action.savepoint is not None and not action.knowingly:
        _outdated(pipeline, world.saved[action.savepoint], found)
    return found


def savable(pipeline: Pipeline) -> list[int | None]:
    """Which moments of the lineage a savepoint may be of, the likeliest first; None: there is nothing to save."""
    last, wreck = pipeline.done, pipeline.wreck
    if wreck is None:
        found = [last]
    elif wreck.in_doubt and wreck.decided:
        found = [last - 1, last - 2]  # what is decided is in the moments already, and not done
    else:
        found = [last, last - 1, last - 2]
    first = 0 if pipeline.restored is not None else 1
    there: list[int | None] = [it for it in found if it >= first]
    return [*there, None] if any(it < first for it in found) else there


def _without_kafka(pipeline: Pipeline, sinks: tuple[str, ...], found: Expected) -> None:
    if pipeline.unsettled and KAFKA not in sinks:
        (found.must if pipeline.unsettled == "yes" else found.may).add(CONFIGURATION)


def _in_doubt_at_a_run(pipeline: Pipeline, sinks: tuple[str, ...], found: Expected) -> None:
    """A decided epoch has to be finished in the sinks that have voted for it."""
    wreck = pipeline.wreck
    if wreck is None:
        return
    missing = set(wreck.sinks) - {KAFKA} - set(sinks)
    joins = KAFKA in sinks and not wreck.kafka
    if wreck.in_doubt and wreck.decided and (missing or joins):
        found.must.add(CONFIGURATION)
    elif wreck.unsure and (missing or joins):
        found.may.add(CONFIGURATION)


def _in_doubt(pipeline: Pipeline, error: str, found: Expected) -> None:
    """Another lineage would throw away what may be decided."""
    if pipeline.wreck is not None and pipeline.wreck.in_doubt:
        found.must.add(error)
    elif pipeline.wreck is not None and pipeline.wreck.unsure:
        found.may.add(error)


def _outdated(pipeline: Pipeline, saved: Saved, found: Expected) -> None:
    """A sink has got epochs since, or of another lineage: they would be committed a second time."""
    if pipeline.restored == saved.number and pipeline.done == 0:
        return  # begun with it, and nothing done since
    own = saved.pipeline == pipeline.number
    known, held = (saved.moment.epochs, saved.moment.held) if own else ({}, {})
    if any(pipeline.epochs[sink] != known.get(sink, 0) for sink in pipeline.epochs):
        found.must.add(OUTDATED)
    elif dict(pipeline.held) != dict(held):
        found.may.add(OUTDATED)
