"""What is wrong after crashes and recoveries: every count, beside that of an undisturbed run."""

from onceward.snapshot_algorithms.barriers.execution import Execution, Snapshot
from onceward.snapshot_algorithms.barriers.graph import Graph
from onceward.snapshot_algorithms.barriers.modes import Counts


def undisturbed(graph: Graph) -> dict[str, Counts]:
    """Every operator's counts, found by following each record, without queues or snapshots."""
    counts = {name: Counts() for name in graph.operators}
    for source, records in graph.sources.items():
        for record in records:
            way = graph.route(source, record)
            while way is not None:
                edge, on_the_way = way
                counts[edge.target][on_the_way.key] += 1
                way = graph.route(edge.target, on_the_way)
    return counts


def violations(execution: Execution) -> list[str]:
    """Of a run that has ended: what was lost and what was doubled, by operator and key."""
    found = []
    for name, expected in undisturbed(execution.graph).items():
        for key in sorted(expected.keys() | execution.states[name].keys()):
            difference = execution.states[name][key] - expected[key]
            if difference:
                found.append(f"{name}: key {key} {'doubled' if difference > 0 else 'lost'} by {abs(difference)}")
    return found


def needless(graph: Graph, snapshot: Snapshot) -> list[str]:
    """Records in flight that an aligned snapshot has no need to store: all that are not of back edges."""
    return [f"{edge} is stored" for edge in snapshot.in_flight if edge not in graph.back_edges]
