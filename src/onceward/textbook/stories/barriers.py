"""Barriers: an operator with two inputs aligns them; in a cycle only what is on the way back is stored."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from onceward.snapshot_algorithms.barriers.execution import Action, Execution
from onceward.snapshot_algorithms.barriers.graph import Edge, Graph, Record
from onceward.snapshot_algorithms.barriers.modes import Aligned, AtLeastOnce, Barrier, Counts
from onceward.textbook.pictures.dataflow import BARRIER, Dataflow, Input, Moment
from onceward.textbook.pictures.grid import Tone
from onceward.textbook.pictures.space_time import Arrow, Event, SpaceTime
from onceward.textbook.stage import Stage
from onceward.textbook.story import Ending, Story

ORDERS: Final = Edge("orders", "count")
CLICKS: Final = Edge("clicks", "count")
OUT: Final = Edge("count", "sink")
_ORDERS: Final = tuple(Record(key) for key in (1, 2, 3))
_CLICKS: Final = tuple(Record(key) for key in (11, 12, 13))
TWO_INPUTS: Final = Graph({"orders": _ORDERS, "clicks": _CLICKS}, (ORDERS, CLICKS, OUT))
# A record with a lap to go takes the way back once: an order that has to be looked at again.
TO_CHECK: Final = Edge("orders", "check")
ON: Final = Edge("check", "pack")
BACK: Final = Edge("pack", "check")
SHIPPED: Final = Edge("pack", "shipped")
CYCLE: Final = Graph({"orders": (Record(1, 1), Record(2, 1), Record(3))}, (TO_CHECK, ON, BACK, SHIPPED))


@dataclass(frozen=True, slots=True)
class Last:
    """How often each record was counted in the end; what the snapshots stored of records on their way."""

    aligned: dict[int, int]
    not_aligned: dict[int, int]
    stored: dict[str, list[int]]
    stored_in_the_cycle: dict[str, list[int]]
    shipped: dict[int, int]


def tell(stage: Stage) -> Ending:
    stage.say(
        "A stream processor is a graph: records flow from sources, which can be read again from any position, through "
        "operators to a sink. Here `count` counts the records of `orders` (1, 2, 3) and of `clicks` (11, 12, 13)."
    )
    stage.say(
        "To begin a snapshot, each source notes its position and sends a barrier. What is before the barrier belongs "
        "to the snapshot, what is behind it does not. The two barriers do not arrive together."
    )
    run = Execution(TWO_INPUTS, Aligned)
    stage.draw(_aligned(run))
    taken = run.last
    assert taken is not None, "both barriers have reached the sink"
    stored = {_name(edge): [it.key for it in found] for edge, found in taken.in_flight.items()}
    stage.say(
        f"The snapshot: orders is at position {taken.positions['orders']}, clicks at {taken.positions['clicks']}, and "
        f"`count` has counted {_state(taken.operators['count'].state)}. No record on its way had to be stored."
    )
    stage.heading("What waiting buys")
    stage.say(
        "Now everything in memory is lost. The state comes back from the snapshot, the sources go back to their noted "
        "positions, and the run goes on to the end."
    )
    run.crash()
    _finish(run)
    hasty = _not_aligned()
    stage.show(
        "record",
        "counted, with alignment",
        "counted, if nobody waits",
        rows=[(key, run.states["count"][key], hasty.states["count"][key]) for key in sorted(run.states["count"])],
    )
    stage.say(
        "Without waiting, records 12 and 13 came into the state before it was recorded, though they are behind the "
        "barrier. After the crash they are read again, and counted twice."
    )
    cycle = _cycle(stage)
    _in_spark(stage)
    return Ending(
        last=Last(
            aligned=dict(run.states["count"]),
            not_aligned=dict(hasty.states["count"]),
            stored=stored,
            stored_in_the_cycle=_back_records(cycle),
            shipped=dict(cycle.states["shipped"]),
        ),
        takeaways=(
            "An operator with several inputs waits until the barrier has come along all of them.",
            "Then its state holds everything before the barriers and nothing behind them.",
            "Without cycles no record on its way has to be stored; in a cycle, only those on the way back.",
            "In Onceward the boundary of a Spark epoch is the barrier: epoch N's state holds everything up to it.",
        ),
        lives_in=(
            "src/onceward/snapshot_algorithms/barriers/modes.py",
            "src/onceward/snapshot_algorithms/barriers/execution.py",
            "docs/snapshots-explained.md",
            "docs/state.md",
        ),
    )


def _aligned(run: Execution) -> Dataflow:
    """Step by step, with a look at the queues in between."""
    moments: list[Moment] = []

    def look(words: str, tone: Tone = Tone.PLAIN) -> None:
        inputs = (_input(run, ORDERS), _input(run, CLICKS))
        moments.append(Moment(words, inputs, f"has counted {_state(run.states['count'])}", tone))

    _do(run, "orders", "orders", "clicks")
    run.begin_snapshot()
    _do(run, "clicks", "clicks", "clicks")
    look("clicks has sent its barrier behind 11, and has gone on to 12 and 13")
    _do(run, CLICKS, CLICKS)
    assert CLICKS not in run.actions(), "an input whose barrier has arrived is not read"
    look("clicks' barrier has arrived: clicks is not read any more", Tone.BAD)
    _do(run, "orders", "orders", ORDERS, ORDERS)
    look("orders is read on: 1 and 2 are before its barrier")
    _do(run, ORDERS)
    look("orders' barrier has arrived too: the state is recorded now", Tone.GOOD)
    _do(run, CLICKS, ORDERS, CLICKS)
    look("both are read again; what follows is none of the snapshot's")
    _do(run, *[OUT] * 4)
    return Dataflow(
        title="Alignment: the next record to be read is on the right.", operator="count", moments=tuple(moments)
    )


def _not_aligned() -> Execution:
    """The same order of events, but `count` reads clicks on behind its barrier; then the same crash."""
    run = Execution(TWO_INPUTS, AtLeastOnce)
    _do(run, "orders", "orders", "clicks")
    run.begin_snapshot()
    _do(run, "clicks", "clicks", "clicks", CLICKS, CLICKS, CLICKS, CLICKS, "orders", "orders", *[ORDERS] * 4)
    _do(run, *[OUT] * 6)
    run.crash()
    _finish(run)
    return run


def _cycle(stage: Stage) -> Execution:
    """The snapshot is taken while two records are on the way back."""
    stage.heading("A cycle")
    stage.say(
        "In a cycle, waiting would never end: `check` would wait for a barrier that must first pass `check` itself. "
        "Here orders 1 and 2 go back from `pack` to `check` once; order 3 goes straight on."
    )
    run = Execution(CYCLE, Aligned)
    _do(run, "orders", "orders", TO_CHECK, TO_CHECK, ON, ON)
    run.begin_snapshot()
    _do(run, "orders")
    moments = [_cycle_moment(run, "orders 1 and 2 are on the way back, the barrier comes from the source")]
    _do(run, TO_CHECK)
    moments.append(_cycle_moment(run, "check records its state, and does not wait for the way back", Tone.GOOD))
    _do(run, ON)
    moments.append(_cycle_moment(run, "the barrier has passed pack, and comes back behind 1 and 2"))
    _do(run, BACK, BACK)
    moments.append(_cycle_moment(run, "what comes back before the barrier is stored: 1 and 2", Tone.MARK))
    _do(run, BACK)
    moments.append(_cycle_moment(run, "the barrier has gone round: check's part is complete", Tone.GOOD))
    _do(run, ON, ON)
    _do(run, SHIPPED, SHIPPED, SHIPPED)
    stage.draw(Dataflow(title="A cycle: only the way back has a state.", operator="check", moments=tuple(moments)))
    kept = [f"{edge}: {_listed([str(key) for key in keys])}" for edge, keys in _back_records(run).items()]
    stage.say(f"Of records on their way the snapshot has stored {_listed(kept)}, and no others.")
    run.crash()
    _finish(run)
    stage.say(
        "After a crash they are put back on their way. In the end each order is shipped once: "
        f"{_state(run.states['shipped'])}."
    )
    return run


def _in_spark(stage: Stage) -> None:
    """Drawn, not run: the stories of state and savepoints run it."""
    stage.heading("In Spark: the boundary of an epoch")
    stage.say(
        "Spark plans each epoch as a range of positions of every source, and begins the next one when all of it was "
        "processed. So at the boundary all barriers are there at once: nobody has to align, and nothing is on its way."
    )
    records = {"orders": {1: "a", 3: "b", 6: "c"}, "clicks": {2: "x", 7: "y", 8: "z"}}
    lanes, boundaries = (*records, "state"), (5, 10)
    stage.draw(
        SpaceTime(
            title="Letters are records, # is the saved state: with epoch 0 it holds a, x and b, and nothing later.",
            lanes=lanes,
            events=(
                *(Event(lane, step, sign) for lane, all_of_it in records.items() for step, sign in all_of_it.items()),
                *(Event(lane, step, BARRIER, Tone.MARK) for lane in records for step in boundaries),
                *(Event("state", step, "#", Tone.GOOD) for step in boundaries),
            ),
            arrows=tuple(
                Arrow(lane, step, "state", step + 1) for lane, all_of_it in records.items() for step in all_of_it
            ),
            cut=tuple((lane, boundaries[0]) for lane in lanes),
        )
    )


def _cycle_moment(run: Execution, words: str, tone: Tone = Tone.PLAIN) -> Moment:
    inputs = (_input(run, TO_CHECK), _input(run, BACK, "way back"))
    return Moment(words, inputs, f"has seen {_state(run.states['check'])}", tone)


def _do(run: Execution, *actions: Action) -> None:
    for action in actions:
        assert action in run.actions(), f"{action} cannot happen now"
        run.do(action)


def _finish(run: Execution) -> None:
    while actions := run.actions():
        run.do(actions[0])


def _input(run: Execution, edge: Edge, name: str = "") -> Input:
    queue = tuple(BARRIER if isinstance(it, Barrier) else str(it.key) for it in run.queues[edge])
    return Input(name or edge.source, queue, blocked=edge in run.handling[edge.target].blocked)


def _back_records(run: Execution) -> dict[str, list[int]]:
    assert run.last is not None, "the snapshot is complete"
    return {_name(edge): [it.key for it in found] for edge, found in run.last.in_flight.items()}


def _name(edge: Edge) -> str:
    return f"{edge.source} -> {edge.target}"


def _state(counts: Counts) -> str:
    """Each record as often as it was counted."""
    return _listed([str(key) for key, times in sorted(counts.items()) for _ in range(times)])


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words) if words else "nothing"


STORY: Final = Story(
    name="barriers",
    title="Barriers, and how an operator aligns them",
    question="Where does a snapshot end in a graph of streams?",
    tell=tell,
)
