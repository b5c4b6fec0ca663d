"""Barrier snapshots of any graph, recovered from at any moment; and bugs on purpose, each of which is found."""

from collections.abc import Collection
from random import Random

import pytest

from onceward.snapshot_algorithms.barriers.checker import needless, undisturbed, violations
from onceward.snapshot_algorithms.barriers.execution import Execution
from onceward.snapshot_algorithms.barriers.graph import Edge, Graph, Record
from onceward.snapshot_algorithms.barriers.modes import (
    Aligned,
    AtLeastOnce,
    Barrier,
    Counts,
    Unaligned,
)
from onceward.snapshot_algorithms.barriers.schedule import random_graph, run

JOIN = Graph(
    {"left": (Record(1),) * 3, "right": (Record(1),) * 3},
    (Edge("left", "count"), Edge("right", "count"), Edge("count", "sink")),
)
LOOP = Graph({"source": (Record(1, laps=2),) * 2}, (Edge("source", "head"), Edge("head", "sink"), Edge("head", "head")))


class Judged(Execution):
    """Looks at every snapshot when it is complete."""

    def __init__(self, graph: Graph, mode: type[Aligned]) -> None:
        super().__init__(graph, mode)
        self.needless: list[str] = []
        self.recovered = 0  # crashes after which a snapshot was there to start from

    def do(self, action: Edge | str) -> None:
        before = self.last
        super().do(action)
        if self.last is not before and self.last is not None:
            self.needless += needless(self.graph, self.last)

    def crash(self) -> None:
        self.recovered += self.last is not None
        super().crash()


def judged(seed: int, mode: type[Aligned], *, cyclic: bool, crashes: Collection[int] | None = None) -> Judged:
    """A random graph in a random order, crashed up to three times, run to the end."""
    dice = Random(seed)
    execution = Judged(random_graph(dice, cyclic=cyclic), mode)
    if crashes is None:
        crashes = {int(dice.random() * 150) for _ in range(1 + int(dice.random() * 3))}
    run(execution, dice, snapshot_every=5 + int(dice.random() * 30), crashes=crashes)
    return execution


@pytest.mark.parametrize("cyclic", [False, True], ids=["acyclic", "cyclic"])
@pytest.mark.parametrize("mode", [Aligned, Unaligned])
def test_whatever_crashes_when_the_results_are_those_of_an_undisturbed_run(mode: type[Aligned], cyclic: bool) -> None:
    """D4: random graphs, orders and crash points."""
    runs = {seed: judged(seed, mode, cyclic=cyclic) for seed in range(700)}
    assert {seed: found for seed, it in runs.items() if (found := violations(it))} == {}
    assert sum(it.recovered for it in runs.values()) > 350


@pytest.mark.parametrize("mode", [Aligned, Unaligned])
def test_a_crash_at_every_single_step_changes_nothing(mode: type[Aligned]) -> None:
    """D4."""
    for step in range(200):
        assert violations(judged(7, mode, cyclic=True, crashes={step})) == []


@pytest.mark.parametrize("mode", [Aligned, AtLeastOnce])
def test_no_records_in_flight_are_stored_on_acyclic_graphs(mode: type[Aligned]) -> None:
    """D4."""
    runs = [judged(seed, mode, cyclic=False) for seed in range(300)]
    assert all(not it.graph.back_edges for it in runs)
    assert sum(it.figures.snapshots for it in runs) > 300
    assert sum(it.figures.in_flight_bytes for it in runs) == 0


def test_on_cyclic_graphs_only_records_of_back_edges_are_stored() -> None:
    """D4: and they are needed, which a bug on purpose shows below."""
    runs = [judged(seed, Aligned, cyclic=True) for seed in range(300)]
    assert all(it.graph.back_edges for it in runs)
    assert [it.needless for it in runs if it.needless] == []
    assert sum(it.figures.in_flight_bytes for it in runs) > 0


def test_the_edges_that_go_back_are_found() -> None:
    """D4: without them no cycle is left."""
    assert LOOP.back_edges == {Edge("head", "head")}
    assert JOIN.back_edges == frozenset()
    for seed in range(300):
        graph = random_graph(Random(seed), cyclic=True)
        left = {it for it in graph.edges if it not in graph.back_edges}
        while ends := {it for it in left if not any(other.target == it.source for other in left)}:
            left -= ends
        assert left == set()


def do(execution: Execution, *actions: Edge | str) -> None:
    for action in actions:
        execution.do(action)


LEFT, RIGHT, OUT = JOIN.edges


def test_an_input_whose_barrier_has_arrived_waits_for_the_others() -> None:
    """D4: alignment, step by step."""
    execution = Execution(JOIN, Aligned)
    do(execution, "left", LEFT, "right")
    execution.begin_snapshot()
    do(execution, "left", "left", LEFT)  # its barrier, one more record, and the barrier arrives
    assert execution.handling["count"].blocked == {LEFT}
    assert LEFT not in execution.actions()
    do(execution, RIGHT, "right", RIGHT)  # the record before the other barrier still counts, then that arrives
    assert execution.handling["count"].blocked == set()
    assert execution.states["count"] == {1: 2}
    do(execution, OUT, OUT, OUT)
    assert execution.last is not None
    assert execution.last.positions == {"left": 1, "right": 1}
    assert execution.last.operators["count"].state == {1: 2}
    assert execution.last.operators["sink"].state == {1: 2}
    assert execution.last.in_flight == {}
    assert execution.figures.blocked_steps == 3


def test_without_alignment_a_record_behind_an_early_barrier_counts_twice_after_a_recovery() -> None:
    """D4: at least once, the same steps; the record is in the state, and behind the position it is replayed from."""
    execution = Execution(JOIN, AtLeastOnce)
    do(execution, "left", LEFT, "right")
    execution.begin_snapshot()
    do(execution, "left", "left", LEFT, LEFT)  # nothing is blocked: the record behind the barrier counts
    do(execution, RIGHT, "right", RIGHT, OUT, OUT, OUT, OUT)
    assert execution.last is not None
    assert execution.last.positions == {"left": 1, "right": 1}
    assert execution.last.operators["count"].state == {1: 3}
    execution.crash()
    run(execution, Random(0), snapshot_every=1000)
    assert violations(execution) == ["count: key 1 doubled by 1", "sink: key 1 doubled by 1"]


def test_unaligned_barriers_overtake_and_what_they_passed_is_stored() -> None:
    """D4: nobody waits, and the record on its way is part of the snapshot."""
    execution = Execution(JOIN, Unaligned)
    do(execution, "left", "right", "right", RIGHT)
    execution.begin_snapshot()
    do(execution, "left", LEFT)  # the barrier jumps over the record, and the state is recorded at once
    assert execution.handling["count"].taken is not None
    do(execution, RIGHT, "right", RIGHT)  # noted in passing; then the other barrier
    do(execution, OUT)
    assert execution.last is not None
    assert execution.last.in_flight == {LEFT: [Record(1)], RIGHT: [Record(1)], OUT: [Record(1)]}
    assert execution.last.operators["count"].state == {1: 1}
    assert execution.last.operators["sink"].state == {}
    assert execution.figures.blocked_steps == 0
    execution.crash()
    run(execution, Random(0), snapshot_every=1000)
    assert violations(execution) == []


def test_what_goes_round_when_the_barrier_passes_is_stored() -> None:
    """D4: the cyclic case, step by step."""
    into, _, around = Edge("source", "head"), Edge("head", "sink"), Edge("head", "head")
    execution = Execution(LOOP, Aligned)
    do(execution, "source", into)  # goes round
    execution.begin_snapshot()
    do(execution, "source", into)  # the barrier: the state is recorded without waiting for the back edge
    assert execution.handling["head"].logged == {around}
    do(execution, around, around)  # the record, then the barrier that has gone round
    do(execution, Edge("head", "sink"))
    assert execution.last is not None
    assert execution.last.in_flight == {around: [Record(1, laps=1)]}
    assert execution.last.operators["head"].state == {1: 1}


def test_at_least_once_doubles_and_never_loses() -> None:
    """D4."""
    found = [text for seed in range(600) for text in violations(judged(seed, AtLeastOnce, cyclic=seed % 2 == 0))]
    assert any("doubled" in text for text in found)
    assert not any("lost" in text for text in found)


def test_without_a_crash_every_mode_is_exact() -> None:
    """D4: a snapshot alone changes nothing, in any mode."""
    for mode in (Aligned, AtLeastOnce, Unaligned):
        for seed in range(100):
            execution = judged(seed, mode, cyclic=True, crashes=())
            assert execution.states == {name: +it for name, it in undisturbed(execution.graph).items()}


class OneInputIsNotAligned(Aligned):
    """Alignment is skipped for one input of each operator."""

    def block(self, edge: Edge) -> None:
        if edge != min(self.forward):
            super().block(edge)


class TheFirstBarrierIsEnough(Aligned):
    """The state is recorded at the first barrier, and nothing is stored of the other inputs."""

    early = Counts()

    def barrier_arrived(self, edge: Edge, barrier: Barrier, state: Counts) -> bool:
        if not self.arrived and edge not in self.back:
            self.early = Counts(state)
        recorded = super().barrier_arrived(edge, barrier, state)
        if recorded:
            self.taken.state = self.early
        return recorded


class BackEdgesForgotten(Aligned):
    """What goes round a cycle is not stored."""

    def record_arrived(self, edge: Edge, record: Record) -> None:
        pass


class OvertakenForgotten(Unaligned):
    """A barrier overtakes, and nobody stores whom it passed."""

    def barrier_arrived(self, edge: Edge, barrier: Barrier, state: Counts) -> bool:
        return super().barrier_arrived(edge, barrier._replace(overtaken=()), state)


class StoredAfterTheBarrier(Unaligned):
    """An input is stored on after its barrier, while the others are awaited."""

    def record_arrived(self, edge: Edge, record: Record) -> None:
        if self.taken is not None:
            self.taken.in_flight[edge].append(record)


class StoresEverything(Aligned):
    """Something of every input is stored, as if nobody had waited."""

    def barrier_arrived(self, edge: Edge, barrier: Barrier, state: Counts) -> bool:
        recorded = super().barrier_arrived(edge, barrier, state)
        if recorded:
            self.taken.in_flight.update({it: [Record(0)] for it in self.forward})
        return recorded


@pytest.mark.parametrize(
    ("mode", "finding"),
    [
        (OneInputIsNotAligned, "doubled"),
        (TheFirstBarrierIsEnough, "lost"),
        (BackEdgesForgotten, "lost"),
        (OvertakenForgotten, "lost"),
        (StoredAfterTheBarrier, "doubled"),
    ],
)
def test_a_bug_on_purpose_is_found(mode: type[Aligned], finding: str) -> None:
    """D4: the checker can fail, within two hundred runs."""
    assert any(finding in text for seed in range(200) for text in violations(judged(seed, mode, cyclic=True)))


def test_what_need_not_be_stored_is_found() -> None:
    """D4: the other checker can fail as well."""
    assert judged(1, StoresEverything, cyclic=False, crashes=()).needless != []
