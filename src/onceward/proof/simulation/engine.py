"""The engine that plans epochs and runs them, as Spark does: an offset log entry before, a commit log entry after.

After a restart the last planned epoch runs again, unless its commit log entry is there.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from onceward.epoch.home import CHECKPOINT
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.proof.history import Row
from onceward.proof.simulation.world import World

TOPIC: Final = "in"
PARTITIONS: Final = 2
MASK: Final = (1 << 64) - 1


class TaskLost(Exception):
    """Spark gives the job up."""


class ConcurrentUpdate(Exception):
    """Two drivers write one checkpoint: Spark stops the one that comes second."""


class Batch:
    """An epoch's rows, computed from the input and the state before it, as often as somebody asks."""

    def __init__(self, epoch: int, records: list[tuple[int, int]], state: Mapping[int, int]) -> None:
        self.epoch, self._records, self._state = epoch, records, state
        self.after: dict[int, int] | None = None  # the state after it, once it was run

    def rows(self, term: int, attempt: int) -> list[Row]:
        """Run the query."""
        state = dict(self._state)
        made = []
        for identifier, key in self._records:
            state[key] = count = state.get(key, 0) + 1
            made.append(Row(identifier, key, count, self.epoch, term, attempt))
        self.after = state
        return made


def of_rows(rows: Iterable[Row], topic: str | None = None, partitions: int = 1) -> Outcome:
    """Counts and digests, which do not depend on the try."""
    if topic is None:
        digests = [hash(row[:3]) for row in rows]
        return Outcome(rows=len(digests), digest=sum(digests) & MASK)
    parts: dict[int, list[int]] = {}
    for row in rows:
        parts.setdefault(row.key % partitions, []).append(hash(row[:3]))
    return Outcome.of(
        (TopicPartition(topic, number), PartitionOutcome(len(digests), sum(digests) & MASK))
        for number, digests in parts.items()
    )


class Engine:
    """What outlives the drivers: the input, and the state store. Its logs are on the disk."""

    def __init__(self, seed: int, epochs: int) -> None:
        self.epochs = epochs
        self._seed = seed
        self.plans = 0
        sizes = [3 + (seed >> 3) % 3, 3 + (seed >> 5) % 3]
        # A key stands in one input partition, so that its order is defined.
        self.input = {
            (TOPIC, place): tuple((place * 100 + n, place + 2 * (n % 2)) for n in range(size))
            for place, size in enumerate(sizes)
        }
        self.states: dict[int, dict[int, int]] = {0: {}}

    def plan(self, epoch: int, begins: Mapping[int, int]) -> dict[int, int]:
        """How far the epoch reads: what has arrived by now, so that a second plan may differ from a lost first one."""
        self.plans += 1
        if epoch == self.epochs - 1:
            return {place: len(self.input[TOPIC, place]) for place in range(PARTITIONS)}
        ends = {}
        for place in range(PARTITIONS):
            size = len(self.input[TOPIC, place])
            arrived = (self._seed * 7 + self.plans * 5 + place * 3 + epoch) % 3  # 0: nothing new in this partition
            ends[place] = min(size, begins[place] + arrived)
        return ends

    def records(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> list[tuple[int, int]]:
        """The input between two positions."""
        return [
            record for place in range(PARTITIONS) for record in self.input[TOPIC, place][begins[place] : ends[place]]
        ]


class Query:
    """One driver's run of the engine."""

    def __init__(self, engine: Engine, world: World) -> None:
        self._engine, self._world = engine, world
        self._storage = world.mount()

    def last(self) -> tuple[int, bool]:
        """The last planned epoch, -1 if there is none, and whether it is finished."""
        planned = max((int(name) for name in self._storage.names(f"{CHECKPOINT}/offsets")), default=-1)
        done = max((int(name) for name in self._storage.names(f"{CHECKPOINT}/commits")), default=-1)
        return planned, planned < 0 or done >= planned

    def open(self) -> None:
        """The query's id."""
        if self._storage.read(f"{CHECKPOINT}/metadata") is None:
            self._add(f"{CHECKPOINT}/metadata", b'{"id":"simulated"}')

    def batch(self, epoch: int, *, planned: bool) -> Batch:
        """Plan the epoch if it is not, then hand out its rows."""
        begins = self._ends(epoch - 1)
        if not planned:
            ends = self._engine.plan(epoch, begins)
            text = ", ".join([f'"{place}": {end}' for place, end in ends.items()])  # spaced as Spark does it
            self._add(f"{CHECKPOINT}/offsets/{epoch}", f'v1\n{{}}\n{{"{TOPIC}": {{{text}}}}}'.encode())
        else:
            ends = self._ends(epoch)
        return Batch(epoch, self._engine.records(begins, ends), self._engine.states[epoch])

    def finish(self, epoch: int, batch: Batch) -> None:
        """The state's next version, then the commit log."""
        before = self._engine.states[epoch]
        self._engine.states[epoch + 1] = batch.after if batch.after is not None else before
        self._add(f"{CHECKPOINT}/commits/{epoch}", b"v1\n{}")

    def _add(self, name: str, data: bytes) -> None:
        """As Spark adds to its logs: renamed into place, never over another one, and not synced."""
        self._world.step("log", name)
        if name in self._world.disk.files:
            raise ConcurrentUpdate(f"{name} was written by another driver")
        self._world.disk.put(name, data)

    def _ends(self, epoch: int) -> dict[int, int]:
        if epoch < 0:
            return dict.fromkeys(range(PARTITIONS), 0)
        text = self._storage.read(f"{CHECKPOINT}/offsets/{epoch}")
        assert text is not None, f"the offset log has lost epoch {epoch}"
        return {int(place): end for place, end in msgspec.json.decode(text.split(b"\n", 2)[2])[TOPIC].items()}
