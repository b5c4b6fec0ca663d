"""Random graphs, orders, snapshots and crashes, from dice that the caller has seeded."""

from collections.abc import Collection, Mapping
from random import Random

from onceward.snapshot_algorithms.barriers.execution import Execution
from onceward.snapshot_algorithms.barriers.graph import Edge, Graph, Record

EVEN: Mapping[str, float] = {}


def random_graph(dice: Random, *, cyclic: bool) -> Graph:
    """One to three sources, one to four operators, one or two sinks; every operator has an input from further left."""
    sources = [f"source{number}" for number in range(1 + int(dice.random() * 3))]
    middle = [f"operator{number}" for number in range(1 + int(dice.random() * 4))]
    sinks = [f"sink{number}" for number in range(1 + int(dice.random() * 2))]
    edges: set[Edge] = set()
    for place, name in enumerate(middle):
        left = [*sources, *middle[:place]]
        edges.update(Edge(it, name) for it in dice.sample(left, 1 + int(dice.random() * min(3, len(left)))))
    for name in sinks:
        edges.update(Edge(it, name) for it in dice.sample(middle, 1 + int(dice.random() * min(3, len(middle)))))
    for name in (*sources, *middle):  # nobody keeps what it gets
        if not any(edge.source == name for edge in edges):
            edges.add(Edge(name, dice.choice(sinks if name in middle else middle)))
    if cyclic:
        edges.update(_ways_back(dice, middle, edges))
    records = {it: tuple(_random_record(dice) for _ in range(5 + int(dice.random() * 15))) for it in sources}
    return Graph(records, tuple(sorted(edges)))


def _random_record(dice: Random) -> Record:
    return Record(int(dice.random() * 4), int(dice.random() * 3))


def _ways_back(dice: Random, middle: list[str], edges: Collection[Edge]) -> list[Edge]:
    """One or two edges that close a cycle, if only from an operator to itself."""
    closing = [Edge(it, it) for it in middle] + [
        Edge(edge.target, edge.source) for edge in sorted(edges) if edge.source in middle and edge.target in middle
    ]
    return dice.sample(closing, min(len(closing), 1 + int(dice.random() * 2)))


def run(
    execution: Execution,
    dice: Random,
    *,
    snapshot_every: int,
    crashes: Collection[int] = (),
    speeds: Mapping[str, float] = EVEN,
) -> int:
    """To the end, which is told in steps: any action that is possible may be next. `crashes` are steps.

    `speeds`: how readily a source emits or an operator reads, where not 1.
    """
    step = 0
    while actions := execution.actions():
        if step % snapshot_every == snapshot_every - 1:
            execution.begin_snapshot()
            actions = execution.actions()
        if speeds:
            weights = [speeds.get(it.target if isinstance(it, Edge) else it, 1) for it in actions]
            action = dice.choices(actions, weights)[0]
        else:
            action = actions[int(dice.random() * len(actions))]
        execution.do(action)
        if step in crashes:
            execution.crash()
        step += 1
    return step
