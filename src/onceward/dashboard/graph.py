"""Pipelines joined by topics, and what flows between them. Pure."""

from collections.abc import Iterable
from typing import NamedTuple

from onceward.dashboard.facts import Rates
from onceward.dashboard.model import Edge, Graph, Node, PipelineFacts
from onceward.dashboard.places import Target


class Member(NamedTuple):
    """One pipeline, with what the overview does not tell of it."""

    facts: PipelineFacts
    targets: list[Target]
    rates: Rates


def graph_of(members: Iterable[Member]) -> Graph:
    """A topic that one writes and another reads is one node."""
    nodes: dict[str, Node] = {}
    edges: list[Edge] = []
    for facts, targets, rates in members:
        mine = f"pipeline:{facts.id}"
        nodes[mine] = Node(id=mine, kind="pipeline", label=facts.name, pipeline=facts.id)
        # Rows in are counted over all topics; how many of each is not told.
        share = rates.rows_in / len(facts.sources) if facts.sources else 0.0
        for topic in facts.sources:
            place = _node(nodes, "topic", topic)
            edges.append(Edge(source=place, target=mine, rows_per_s=round(share, 1), lag=facts.lag.get(topic)))
        for it in targets:
            place = _node(nodes, it.kind, it.label)
            flow = rates.by_topic.get(it.label, 0.0) if it.kind == "topic" else rates.by_sink.get(it.sink, 0.0)
            edges.append(Edge(source=mine, target=place, rows_per_s=flow))
    return Graph(nodes=list(nodes.values()), edges=edges)


def _node(nodes: dict[str, Node], kind: str, label: str) -> str:
    found = f"{kind}:{label}"
    nodes.setdefault(found, Node(id=found, kind=kind, label=label))
    return found
