"""The engine that plans epochs and runs them, as Spark does: an offset log entry before, a commit log entry after.

After a restart the last planned epoch runs again, unless its commit log entry is there. As Spark on a local path it
looks whether an entry is there and then renames over it, in two steps; it syncs nothing, reads its logs only when it
starts, and keeps in memory from where the next epoch goes on.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from onceward.epoch.checkpoint import Checkpoint, Positions
from onceward.epoch.contract import EpochContext
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


class Unreadable(Exception):
    """The engine cannot read its own logs."""


class Batch:
    """An epoch's rows, computed from the input and the state before it, as often as somebody asks."""

    def __init__(
        self,
        epoch: int,
        records: list[tuple[int, int]],
        state: Mapping[int, int],
        sinks: Iterable[str],
        before: Mapping[int, int],
    ) -> None:
        """`before`: how often each key came before this lineage began, whose state knows nothing of it."""
        self.epoch, self._records, self._state, self._sinks = epoch, records, state, tuple(sinks)
        self._before = before
        self.after: dict[int, int] | None = None  # the state after it, once it was run

    def prepare(self, epoch: int, positions: Positions) -> None:
        """Nothing is looked up."""

    @contextmanager
    def rows(self, context: EpochContext) -> Iterator[Mapping[str, "Batch"]]:  # noqa: ARG002 - every try alike
        """Every sink gets all of them."""
        yield dict.fromkeys(self._sinks, self)

    def count(self, rows: "Batch") -> Outcome:
        return of_rows(rows.computed(0, 0))

    def rows_read(self) -> None:
        """Offsets have no gaps here."""

    def late_rows(self) -> int:
        """There is no watermark."""
        return 0

    def computed(self, term: int, attempt: int) -> list[Row]:
        state = dict(self._state)
        made = []
        for identifier, key in self._records:
            state[key] = count = state.get(key, 0) + 1
            made.append(Row(identifier, key, self._before.get(key, 0) + count, self.epoch, term, attempt))
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
    """What outlives the drivers: the input. Logs and state are on the disk."""

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

    def counted(self, ends: Mapping[int, int]) -> Counter[int]:
        """How often each key came up to there."""
        return Counter(key for _, key in self.records(dict.fromkeys(range(PARTITIONS), 0), ends))

    def records(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> list[tuple[int, int]]:
        """The input between two positions."""
        return [
            record for place in range(PARTITIONS) for record in self.input[TOPIC, place][begins[place] : ends[place]]
        ]


class Query:
    """One driver's run of the engine, in its folder. `shift`: how many epochs the lineages before a reset have had."""

    def __init__(self, engine: Engine, world: World, folder: str, sinks: Iterable[str], shift: int = 0) -> None:
        self._engine, self._world, self._folder, self._sinks = engine, world, folder, tuple(sinks)
        self._storage = world.mount()
        self._checkpoint = Checkpoint(self._storage, folder, folder)
        self._shift = shift
        begins = began(self._checkpoint) if shift else {}
        self._ended: dict[int, int] = {place: begins.get(place, 0) for place in range(PARTITIONS)}  # of the last epoch
        self._before = engine.counted(self._ended) if shift else Counter[int]()

    def open(self) -> int:
        """Read the logs, once: the epoch that comes next."""
        metadata = f"{self._folder}/metadata"
        found = self._storage.read(metadata)
        if found is None:
            self._add(metadata, b'{"id":"simulated"}')
        elif not found.endswith(b"}"):
            raise Unreadable(f"{metadata} is torn")
        planned, done = self._checkpoint.planned(), self._checkpoint.last_finished()
        if planned is None:
            return 0
        self._planned = self._ends(planned)
        if done is not None and done >= planned:
            self._require_readable(done)
            self._ended, self._planned = self._planned, None
            return planned + 1
        if planned > 0:
            self._ended = self._ends(planned - 1)
        return planned

    _planned: dict[int, int] | None = None  # an epoch that an earlier driver has planned and not finished

    def batch(self, epoch: int) -> Batch:
        """Plan the epoch if it is not, then hand out its rows."""
        ends = self._planned
        if ends is None:
            ends = self._engine.plan(epoch + self._shift, self._ended)
            text = ", ".join([f'"{place}": {end}' for place, end in ends.items()])  # spaced as Spark does it
            self._add(f"{self._folder}/offsets/{epoch}", f'v1\n{{}}\n{{"{TOPIC}": {{{text}}}}}'.encode())
        records = self._engine.records(self._ended, ends)
        self._ended, self._planned = ends, None
        return Batch(epoch + self._shift, records, self.state(epoch), self._sinks, self._before)

    def finish(self, epoch: int, batch: Batch) -> None:
        """The state's next version, then the commit log."""
        after = batch.after if batch.after is not None else self.state(epoch)
        file = self._state_file(epoch + 1)
        self._world.disk.put(file, msgspec.json.encode(after))
        self._world.disk.keep(file)  # Spark does not sync it either; but nobody claims that it survives a power cut
        self._add(f"{self._folder}/commits/{epoch}", b"v1\n{}")

    def state(self, epoch: int) -> dict[int, int]:
        """How often each key came before an epoch."""
        return state_of(self._world.disk.files.get(self._state_file(epoch)))

    def _state_file(self, epoch: int) -> str:
        return f"{self._folder}/state/{epoch}"

    def _add(self, name: str, data: bytes) -> None:
        """As Spark adds to its logs on a local path: looked first, then renamed into place, and not synced."""
        self._world.step("look", name)
        if name in self._world.disk.files:
            raise ConcurrentUpdate(f"{name} was written by another driver")
        self._world.step("log", name)
        self._world.disk.put(name, data, fragile=True)

    def _require_readable(self, epoch: int) -> None:
        if self._storage.read(f"{self._folder}/commits/{epoch}") != b"v1\n{}":
            raise Unreadable(f"commits/{epoch} is torn")

    def _ends(self, epoch: int) -> dict[int, int]:
        text = self._storage.read(f"{self._folder}/offsets/{epoch}")
        try:
            assert text is not None
            return {int(place): end for place, end in msgspec.json.decode(text.split(b"\n", 2)[2])[TOPIC].items()}
        except (AssertionError, IndexError, msgspec.DecodeError) as error:
            raise Unreadable(f"offsets/{epoch} cannot be read: {error!r}") from error


def began(checkpoint: Checkpoint) -> dict[int, int]:
    """Where the first epoch of a lineage begins, as its source has it noted."""
    return {place.partition: offset for place, offset in checkpoint.initial().items()}


def state_of(data: bytes | None) -> dict[int, int]:
    """The state as the engine writes it."""
    return msgspec.json.decode(data, type=dict[int, int]) if data is not None else {}
