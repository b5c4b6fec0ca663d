"""What an action has done to the world, killed or not. Pure."""

from onceward.proof.sequences.actions import BEFORE_THE_LINEAGE, BEGINS_IT, DECIDED, OF_STARTS, Action, Kill, Result
from onceward.proof.sequences.expecting import expected, savable
from onceward.proof.sequences.world import KAFKA, Pipeline, Saved, World, Wreck


def apply(world: World, action: Action, result: Result) -> list[str]:
    """Bring the world up to date; what is wrong with the result."""
    if result.died:
        _died(world, action)
        return []
    fault = expected(world, action).fault(result.refused, result.message)
    if result.refused:
        return [fault] if fault is not None else []
    faults = [fault] if fault is not None else []
    if action.kind == "save":
        return [*faults, *_saved(world, action, result)]
    if action.kind == "delete":
        assert action.savepoint is not None
        del world.saved[action.savepoint]
        return faults
    pipeline = _of(world, action)
    _begin_lineage(world, pipeline, action)
    if action.kind != "reset":
        _run(world, pipeline, action.sinks)
        pipeline.ended = not action.retain and pipeline.has_epoch
    return faults


def feed(world: World, action: Action) -> None:
    for ids, more in zip(world.log.ids, action.feed or ((),) * world.log.partitions, strict=True):
        ids.extend(more)


def _of(world: World, action: Action) -> Pipeline:
    if action.pipeline == len(world.pipelines):
        made = Pipeline(action.pipeline, action.sinks, world.log.partitions, lineage=world.fresh_lineage())
        world.pipelines.append(made)
    return world.pipelines[action.pipeline]


def _begin_lineage(world: World, pipeline: Pipeline, action: Action) -> None:
    if action.kind in ("restore", "fork"):
        assert action.savepoint is not None
        saved = world.saved[action.savepoint]
        pipeline.begin(saved.moment.position, saved.moment.state, saved.number, world.fresh_lineage())
    elif action.kind == "reset":
        position = {"earliest": (0,) * world.log.partitions, "offsets": action.offsets}.get(action.how)
        pipeline.begin(position or pipeline.now.position, frozenset(), None, world.fresh_lineage())


def _run(world: World, pipeline: Pipeline, sinks: tuple[str, ...], kill: Kill | None = None) -> None:
    """To the end of the input, or to the epoch in which it is killed."""
    pipeline.mark_anew(sinks)
    pipeline.sinks = sinks
    ends = world.log.epochs(pipeline.now.position, pipeline.planned)
    if ends:
        pipeline.mark_before_the_first(sinks)
    if kill is None:
        pipeline.wreck, pipeline.unsettled = None, ""
        for end in ends:
            pipeline.commit(world.log, end, sinks)
        return
    for end in ends[: kill.epoch - 1]:
        pipeline.commit(world.log, end, sinks)
    _wreck(world, pipeline, sinks, kill, ends[kill.epoch - 1 :])


def _wreck(world: World, pipeline: Pipeline, sinks: tuple[str, ...], kill: Kill, ends: list[tuple[int, ...]]) -> None:
    """Killed in an epoch: is it out, is it in doubt, and what is planned?"""
    decided = kill.point in DECIDED
    if decided:
        pipeline.commit(world.log, ends[0], sinks)
    else:
        pipeline.planned = ends[0]
    voted_apart = KAFKA not in sinks or len(sinks) > 1
    in_doubt = kill.point in ("decided", "committed") or (kill.point in ("prepared", "marked") and KAFKA in sinks)
    pipeline.wreck = Wreck(
        sinks,
        in_doubt=in_doubt and voted_apart,
        decided=decided,
        unsure=kill.epoch > 1 and not decided,
        recorded=kill.point == "recorded",
    )
    pipeline.unsettled = "yes" if KAFKA in sinks else ""


def _died(world: World, action: Action) -> None:
    kill = action.kill
    assert kill is not None
    if action.kind in ("save", "delete"):
        return  # it is absent or whole: the same command is repeated
    if kill.point in BEFORE_THE_LINEAGE or (kill.point == "fenced" and action.kind != "run"):
        return
    if kill.point in ("fenced", "resolving"):
        return  # a start that has found nothing out yet: what was left is still left
    pipeline = _of(world, action)
    _begin_lineage(world, pipeline, action)
    if kill.point in BEGINS_IT:
        return
    if kill.point in OF_STARTS:
        _started(pipeline, action.sinks)
    else:
        _run(world, pipeline, action.sinks, kill)


def _started(pipeline: Pipeline, sinks: tuple[str, ...]) -> None:
    """All is resolved, and the engine has not caught up."""
    pipeline.mark_anew(sinks)
    pipeline.sinks = sinks
    recorded = pipeline.wreck is not None and pipeline.wreck.recorded
    pipeline.wreck = Wreck(sinks, decided=pipeline.wreck is not None and pipeline.wreck.decided, recorded=recorded)
    pipeline.unsettled = "yes" if KAFKA in sinks else ""


def _saved(world: World, action: Action, result: Result) -> list[str]:
    """Which epoch it is of is told by itself, and must be one that can be saved."""
    pipeline = world.pipelines[action.pipeline]
    moments = [it for it in savable(pipeline) if it is not None]
    found = next((it for it in moments if pipeline.moments[it].position == result.position), None)
    assert action.savepoint is not None
    if found is None:
        wanted = " or ".join(str(list(pipeline.moments[it].position)) for it in moments) or "none"
        return [f"savepoint {action.savepoint} is of {result.position}, which must be {wanted}"]
    world.saved[action.savepoint] = Saved(action.savepoint, pipeline.number, pipeline.moments[found])
    return []
