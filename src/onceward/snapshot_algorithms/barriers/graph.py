"""A dataflow graph: sources, operators that count by key, sinks; and which of its edges go back."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

RECORD_BYTES: Final = 16  # a key and the laps; also what one key costs in a state


class Edge(NamedTuple):
    """First in, first out, but for barriers that may overtake."""

    source: str
    target: str


class Record(NamedTuple):
    """`laps`: how often it still takes a back edge where there is one."""

    key: int
    laps: int = 0


@dataclass(frozen=True)
class Graph:
    """`sources`: what each can replay from any position. Whatever else an edge names is an operator.

    An operator without an edge to go on is a sink. The path of a record depends on the record alone, so the counts at
    the end do not depend on the order of events: runs can be compared.
    """

    sources: Mapping[str, tuple[Record, ...]]
    edges: tuple[Edge, ...]

    @cached_property
    def operators(self) -> tuple[str, ...]:
        return tuple(sorted({name for edge in self.edges for name in edge} - self.sources.keys()))

    @cached_property
    def inputs(self) -> Mapping[str, tuple[Edge, ...]]:
        return {name: tuple(it for it in self.edges if it.target == name) for name in self.operators}

    @cached_property
    def outputs(self) -> Mapping[str, tuple[Edge, ...]]:
        return {name: tuple(it for it in self.edges if it.source == name) for name in (*self.sources, *self.operators)}

    @cached_property
    def back_edges(self) -> frozenset[Edge]:
        """Edges to where a walk from the sources has come from: without them there is no cycle left."""
        found: set[Edge] = set()
        finished: set[str] = set()

        def walk(name: str, path: frozenset[str]) -> None:
            for edge in self.outputs[name]:
                if edge.target in path:
                    found.add(edge)
                elif edge.target not in finished:
                    walk(edge.target, path | {edge.target})
            finished.add(name)

        for source in self.sources:
            walk(source, frozenset({source}))
        return frozenset(found)

    @cached_property
    def _ways(self) -> Mapping[str, tuple[tuple[Edge, ...], tuple[Edge, ...]]]:
        back = self.back_edges
        return {
            name: (tuple(it for it in edges if it not in back), tuple(it for it in edges if it in back))
            for name, edges in self.outputs.items()
        }

    def route(self, name: str, record: Record) -> tuple[Edge, Record] | None:
        """Where a record goes from here: another lap, or on by its key, or nowhere."""
        forward, back = self._ways[name]
        if back and record.laps:
            return back[record.key % len(back)], Record(record.key, record.laps - 1)
        return (forward[record.key % len(forward)], record) if forward else None
