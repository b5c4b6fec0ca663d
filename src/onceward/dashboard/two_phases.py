"""The two-phase commit of the epoch under way: what each sink has been asked for, and where it stands. Pure."""

from typing import Final

from onceward.dashboard.model import Current, SinkNow, Span, Steps
from onceward.dashboard.places import kind_of
from onceward.telemetry import activity
from onceward.telemetry.activity import Activity, SinkActivity, StepActivity

COMMITS: Final = frozenset({"commit", "decide"})  # of the sink that decides, the decision is its commit


def current_of(said: Activity) -> Current | None:
    """None: no epoch is under way."""
    if said.epoch is None:
        return None
    return Current(
        epoch=said.epoch,
        attempt=max(said.attempt, 1),
        began_at=said.began_at or said.updated_at,
        phase=_phase(said),
        sinks=[_sink(it, [step for step in said.steps if step.sink == it.name]) for it in said.sinks],
    )


def _phase(said: Activity) -> str:
    if said.state == activity.REPLAYING:
        return "replaying"
    names = {step.name for step in said.steps}
    if said.decided or "commit" in names:
        return "committing"
    if said.in_doubt is not None or "decide" in names:
        return "deciding"
    return "voting" if names else "planning"


def _sink(sink: SinkActivity, steps: list[StepActivity]) -> SinkNow:
    spans: dict[str, Span] = {}
    for step in steps:
        if sink.decides and step.name == "commit":  # empty: it has committed by deciding
            continue
        name = "commit" if step.name in COMMITS else step.name
        spans[name] = Span(began_at=step.began_at, ended_at=step.ended_at)
    found = Steps(
        begin=spans.get("begin"),
        write=spans.get("write"),
        pre_commit=spans.get("pre_commit"),
        commit=spans.get("commit"),
    )
    return SinkNow(name=sink.name, kind=kind_of(sink.kind), decides=sink.decides, steps=found, state=_state(found))


def _state(steps: Steps) -> str:
    if steps.commit is not None:
        return "committed" if steps.commit.ended_at is not None else "committing"
    if steps.pre_commit is not None and steps.pre_commit.ended_at is not None:
        return "voted"
    if steps.write is not None:
        return "written" if steps.write.ended_at is not None else "writing"
    return "begun" if steps.begin is not None and steps.begin.ended_at is not None else "idle"
