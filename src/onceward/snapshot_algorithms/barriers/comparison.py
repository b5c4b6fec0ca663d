"""The three modes side by side: what a snapshot costs in each, and what a recovery from it gives."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from onceward.snapshot_algorithms.barriers.checker import undisturbed
from onceward.snapshot_algorithms.barriers.execution import Execution, Figures
from onceward.snapshot_algorithms.barriers.graph import Edge, Graph, Record
from onceward.snapshot_algorithms.barriers.modes import MODES, Aligned
from onceward.snapshot_algorithms.barriers.schedule import run

KEYS: Final = 20
RECORDS: Final = 300  # of each source
SNAPSHOT_EVERY: Final = 150  # steps
SEEDS: Final = range(5)

COLUMNS: Final = (
    "situation",
    "mode",
    "steps until complete",
    "input-steps blocked",
    "bytes of state",
    "bytes in flight",
    "counts wrong after a crash",
)

Dice = Callable[[int], Random]  # seeded; `random.Random` itself

JOIN: Final = (
    *(Edge(source, operator) for source in ("orders", "clicks") for operator in ("count-1", "count-2")),
    Edge("count-1", "sink"),
    Edge("count-2", "sink"),
)


@dataclass(frozen=True, slots=True)
class Situation:
    says: str
    edges: tuple[Edge, ...] = JOIN
    speeds: Mapping[str, float] = field(default_factory=dict)
    laps: int = 0


SITUATIONS: Final = (
    Situation("all equally quick"),
    Situation("one source ten times slower", speeds={"clicks": 0.1}),
    Situation("the counting ten times slower: long queues", speeds={"count-1": 0.1, "count-2": 0.1}),
    Situation("with a cycle, two laps each", edges=(*JOIN, Edge("count-1", "count-1")), laps=2),
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one mode in one situation. `doubled` and `lost`: counts, after one crash in the middle of each run."""

    situation: str
    mode: str
    figures: Figures
    doubled: int
    lost: int

    def per_snapshot(self, total: int) -> int:
        return round(total / self.figures.snapshots)


def compare(dice: Dice, seeds: Collection[int] = SEEDS) -> list[Measured]:
    return [_measure(situation, name, mode, dice, seeds) for situation in SITUATIONS for name, mode in MODES.items()]


def _measure(situation: Situation, name: str, mode: type[Aligned], dice: Dice, seeds: Collection[int]) -> Measured:
    total = Figures()
    doubled = lost = 0
    for seed in seeds:
        keys = dice(seed)
        records = {
            it: tuple(Record(keys.randrange(KEYS), situation.laps) for _ in range(RECORDS))
            for it in ("orders", "clicks")
        }
        graph = Graph(records, situation.edges)
        execution = Execution(graph, mode)
        steps = run(execution, dice(seed), snapshot_every=SNAPSHOT_EVERY, speeds=situation.speeds)
        total = total.plus(execution.figures)
        crashed = Execution(graph, mode)
        run(crashed, dice(seed), snapshot_every=SNAPSHOT_EVERY, speeds=situation.speeds, crashes={steps // 2})
        for operator, expected in undisturbed(graph).items():
            doubled += (crashed.states[operator] - expected).total()
            lost += (expected - crashed.states[operator]).total()
    return Measured(situation.says, name, total, doubled, lost)


def table(measured: Collection[Measured]) -> str:
    """As it stands in docs/snapshots-explained.md."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---|---|---:|---:|---:|---:|---|"]
    for it in measured:
        found = it.figures
        costs = (found.steps_under_way, found.blocked_steps, found.state_bytes, found.in_flight_bytes)
        wrong = [f"{number} {word}" for number, word in ((it.doubled, "doubled"), (it.lost, "lost")) if number]
        cells = (it.situation, it.mode, *(f"{it.per_snapshot(cost):,}" for cost in costs), ", ".join(wrong) or "none")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
