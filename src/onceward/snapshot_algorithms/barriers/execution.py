"""A running dataflow: queues, operators, snapshots, and a new start from one. Whoever drives it picks each action."""

from collections import Counter, deque
from dataclasses import astuple, dataclass, field
from typing import Final

from onceward.snapshot_algorithms.barriers.graph import Edge, Graph, Record
from onceward.snapshot_algorithms.barriers.modes import Aligned, Barrier, Counts, OperatorSnapshot

POSITION_BYTES: Final = 8

Action = Edge | str  # the first of an edge is delivered; a source emits its next record, or its barrier if one is due


@dataclass(slots=True)
class Snapshot:
    """Complete: the position of every source, and every operator's part."""

    number: int
    positions: dict[str, int] = field(default_factory=dict)
    operators: dict[str, OperatorSnapshot] = field(default_factory=dict)

    @property
    def in_flight(self) -> dict[Edge, list[Record]]:
        return {edge: found for part in self.operators.values() for edge, found in part.in_flight.items() if found}


@dataclass(slots=True)
class Figures:
    """What the snapshots of a run have cost. A step is one delivery or emission anywhere in the graph."""

    snapshots: int = 0
    steps_under_way: int = 0  # from the first barrier to the last part
    blocked_steps: int = 0  # for every step, the inputs that were not read because of a barrier
    state_bytes: int = 0
    in_flight_bytes: int = 0

    def plus(self, other: "Figures") -> "Figures":
        return Figures(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Execution:
    def __init__(self, graph: Graph, mode: type[Aligned]) -> None:
        self.graph, self.mode = graph, mode
        self.figures = Figures()
        self.last: Snapshot | None = None  # the newest complete one
        self._number = 0
        self._start(None)

    def _start(self, snapshot: Snapshot | None) -> None:
        """Everything that was in memory is gone; what the snapshot has is put in its place."""
        graph, back = self.graph, self.graph.back_edges
        self.queues: dict[Edge, deque[Record | Barrier]] = {edge: deque() for edge in graph.edges}
        self.positions = dict(snapshot.positions) if snapshot else dict.fromkeys(graph.sources, 0)
        parts = snapshot.operators if snapshot else {}
        self.states: dict[str, Counts] = {it: Counter(parts[it].state if parts else ()) for it in graph.operators}
        self.handling = {
            name: self.mode([it for it in inputs if it not in back], [it for it in inputs if it in back])
            for name, inputs in graph.inputs.items()
        }
        for edge, records in (snapshot.in_flight if snapshot else {}).items():
            self.queues[edge].extend(records)
        self._under_way: Snapshot | None = None
        self._due: set[str] = set()  # sources whose barrier has not been sent yet

    def crash(self) -> None:
        """And start again, from the newest complete snapshot or from the beginning."""
        self._start(self.last)

    def begin_snapshot(self) -> bool:
        """Every source is asked for a barrier, and sends it when it is next picked. False: one is still under way."""
        if self._under_way is not None:
            return False
        self._number += 1
        self._under_way = Snapshot(self._number)
        self._due = set(self.graph.sources)
        return True

    def actions(self) -> list[Action]:
        """What can happen next: everything but what is empty, blocked or exhausted."""
        records, due = self.graph.sources, self._due
        sources = [it for it, position in self.positions.items() if position < len(records[it]) or it in due]
        ready = [
            edge for edge, queue in self.queues.items() if queue and edge not in self.handling[edge.target].blocked
        ]
        return [*sources, *ready]

    def do(self, action: Action) -> None:
        if self._under_way is not None:
            self.figures.steps_under_way += 1
            self.figures.blocked_steps += sum(len(it.blocked) for it in self.handling.values())
        if isinstance(action, Edge):
            self._deliver(action)
        elif action in self._due:
            self._due.remove(action)
            assert self._under_way is not None
            self._under_way.positions[action] = self.positions[action]
            self._send_barriers(action)
            self._collect()
        else:
            record = self.graph.sources[action][self.positions[action]]
            self.positions[action] += 1
            self._send(action, record)

    def _deliver(self, edge: Edge) -> None:
        name, first = edge.target, self.queues[edge].popleft()
        handling = self.handling[name]
        if isinstance(first, Barrier):
            if handling.barrier_arrived(edge, first, self.states[name]):
                self._send_barriers(name)
            if handling.complete:
                assert self._under_way is not None
                self._under_way.operators[name] = handling.hand_over()
                self._collect()
        else:
            handling.record_arrived(edge, first)
            self.states[name][first.key] += 1
            self._send(name, first)

    def _send(self, name: str, record: Record) -> None:
        way = self.graph.route(name, record)
        if way is not None:
            self.queues[way[0]].append(way[1])

    def _send_barriers(self, name: str) -> None:
        for edge in self.graph.outputs[name]:
            queue = self.queues[edge]
            if self.mode.overtakes:
                queue.appendleft(Barrier(self._number, tuple(it for it in queue if isinstance(it, Record))))
            else:
                queue.append(Barrier(self._number))

    def _collect(self) -> None:
        """The snapshot is complete when every part is there; only then does a recovery use it."""
        found = self._under_way
        assert found is not None
        if len(found.operators) < len(self.graph.operators) or len(found.positions) < len(self.graph.sources):
            return
        self.last, self._under_way = found, None
        self.figures.snapshots += 1
        self.figures.state_bytes += POSITION_BYTES * len(found.positions)
        self.figures.state_bytes += sum(it.state_bytes for it in found.operators.values())
        self.figures.in_flight_bytes += sum(it.in_flight_bytes for it in found.operators.values())
