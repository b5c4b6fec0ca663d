"""The engine that plans epochs and runs them, as Spark does: an offset log entry before, a commit log entry after.

After a restart the last planned epoch runs again, unless its commit log entry is there. As Spark on a local path it
looks whether an entry is there and then renames over it, in two steps; it syncs nothing, reads its logs only when it
starts, and keeps in memory from where the next epoch goes on.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import msgspec

from onceward.epoch import query_shape, skips
from onceward.epoch.checkpoint import Checkpoint, Positions, offsets_of
from onceward.epoch.contract import EpochContext
from onceward.epoch.outcome import Outcome, PartitionOutcome, TopicPartition
from onceward.epoch.places import SourceRecord
from onceward.epoch.query_shape import OperatorShape, QueryShape
from onceward.epoch.skips import Skipped
from onceward.epoch.storage import Storage
from onceward.proof.history import Row
from onceward.proof.simulation import state
from onceward.proof.simulation.world import World
from onceward.savepoint.facts import partitions_of

TOPIC: Final = "in"  # of every source
PARTITIONS: Final = 2
ANOTHER: Final = 1_000  # added to what the other query counts
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
        prepare: Callable[[], None] = lambda: None,
        query: int = 0,
    ) -> None:
        """`before`: how often each key came before this lineage began, whose state knows nothing of it."""
        self.epoch, self._records, self._state, self._sinks = epoch, records, state, tuple(sinks)
        self._before, self._prepare, self._zero = before, prepare, query * ANOTHER
        self.after: dict[int, int] | None = None  # the state after it, once it was run

    def prepare(self, epoch: int, positions: Positions) -> None:  # noqa: ARG002 - nothing is looked up
        """From now on the state is this query's."""
        self._prepare()

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
            state[key] = count = state.get(key, self._zero) + 1
            number = self._before.get(key, 0) + count - self._zero
            made.append(Row(identifier, key, number, self.epoch, term, attempt))
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

    def __init__(self, seed: int, epochs: int, sources: int = 1) -> None:
        """`sources`: one reads both partitions, or two read one each, of topics of the same name in two clusters."""
        self.epochs, self.sources = epochs, sources
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

    def counted(self, ends: Mapping[int, int], left_out: Container[tuple[int, int]] = ()) -> Counter[int]:
        """How often each key came up to there."""
        return Counter(key for _, key in self.records(dict.fromkeys(range(PARTITIONS), 0), ends, left_out))

    def records(
        self, begins: Mapping[int, int], ends: Mapping[int, int], left_out: Container[tuple[int, int]] = ()
    ) -> list[tuple[int, int]]:
        """The input between two positions, without some."""
        return [
            record
            for place in range(PARTITIONS)
            for offset, record in enumerate(self.input[TOPIC, place][begins[place] : ends[place]], begins[place])
            if (place, offset) not in left_out
        ]

    def texts(self, ends: Mapping[int, int]) -> list[str]:
        """Each source's positions, spaced as Spark does it."""
        if self.sources == 1:
            text = ", ".join([f'"{place}": {end}' for place, end in ends.items()])
            return [f'{{"{TOPIC}": {{{text}}}}}']
        return [f'{{"{TOPIC}": {{"0": {end}}}}}' for end in ends.values()]

    def record(self, number: int) -> SourceRecord:
        """Some record of the input, as a person names it."""
        place = number % PARTITIONS
        offset = number // PARTITIONS % len(self.input[TOPIC, place])
        return SourceRecord(0, TOPIC, place, offset) if self.sources == 1 else SourceRecord(place, TOPIC, 0, offset)


class Query:
    """One driver's run of the engine, in its folder. `shift`: how many epochs the lineages before a reset have had.

    `number`: which query it is. Each reads the other's state without an error, and wrongly.
    """

    def __init__(
        self,
        engine: Engine,
        world: World,
        folder: str,
        sinks: Iterable[str],
        *,
        shift: int,
        number: int,
        skipped: Iterable[Skipped],
        passed: Container[tuple[int, int]],
        notes: Storage,
    ) -> None:
        """`passed`: records that older lineages have left out."""
        self._engine, self._world, self._folder, self._sinks = engine, world, folder, tuple(sinks)
        self._storage, self._notes = world.mount(), notes
        self._checkpoint = Checkpoint(self._storage, folder, folder)
        self._shift, self._number = shift, number
        self._left_out = [
            place_of(source, it.partition, it.offset)
            for source in range(engine.sources)
            for it in skips.of_source(skipped, source)
        ]
        begins = began(self._checkpoint)
        self._ended: dict[int, int] = {place: begins.get(place, 0) for place in range(PARTITIONS)}  # of the last epoch
        self._before = engine.counted(self._ended, passed)

    def open(self) -> int:
        """Read the logs, once: the epoch that comes next."""
        metadata = f"{self._folder}/metadata"
        found = self._storage.read(metadata)
        if found is None:
            self._add(metadata, b'{"id":"simulated"}')
            state.describe(self._world.disk, self._folder, self._partitions)
        elif not found.endswith(b"}"):
            raise Unreadable(f"{metadata} is torn")
        planned, done = self._checkpoint.planned(), self._checkpoint.last_finished()
        if planned is None:
            return 0
        self._partitions = self._planned_partitions(planned)
        self._planned = self._ends(planned)
        if done is not None and done >= planned:
            self._require_readable(done)
            self._ended, self._planned = self._planned, None
            return planned + 1
        if planned > 0:
            self._ended = self._ends(planned - 1)
        return planned

    _partitions = 1  # of its state
    _planned: dict[int, int] | None = None  # an epoch that an earlier driver has planned and not finished

    def batch(self, epoch: int) -> Batch:
        """Plan the epoch if it is not, then hand out its rows."""
        ends = self._planned
        if ends is None:
            ends = self._engine.plan(epoch + self._shift, self._ended)
            self._add(f"{self._folder}/offsets/{epoch}", state.plan(self._partitions, self._engine.texts(ends)))
        records = self._engine.records(self._ended, ends, self._left_out)
        self._ended, self._planned = ends, None
        before, runs = self.state(epoch), self._runs
        return Batch(epoch + self._shift, records, before, self._sinks, self._before, runs, self._number)

    def finish(self, epoch: int, batch: Batch) -> None:
        """The state's next version, then the commit log."""
        after = batch.after if batch.after is not None else self.state(epoch)
        for name, part in state.files(self._folder, epoch + 1, after, self._partitions).items():
            self._world.disk.put(name, part)
            self._world.disk.keep(name)  # Spark does not sync it either; but nobody claims that it survives a power cut
        for name in state.files(self._folder, epoch - 1, {}, self._partitions):
            self._world.disk.drop(name)  # no start goes back that far
        self._add(f"{self._folder}/commits/{epoch}", b"v1\n{}")

    def state(self, epoch: int) -> dict[int, int]:
        """How often each key came before an epoch."""
        found = state.read(self._world.disk.files, self._folder, epoch, self._partitions)
        if found is None and epoch > 0:  # of an overtaken driver, whose folder is gone
            raise Unreadable(f"there is no state of version {epoch}")
        return found or {}

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
            for line in (lines := text.decode().split("\n")[2:]):
                msgspec.json.decode(line)
            assert len(lines) == self._engine.sources
        except (AssertionError, msgspec.DecodeError) as error:
            raise Unreadable(f"offsets/{epoch} cannot be read: {error!r}") from error
        return ends_of(map(offsets_of, lines))

    def _planned_partitions(self, epoch: int) -> int:
        """As the newest plan has it, for ever."""
        plan = self._storage.read(f"{self._folder}/offsets/{epoch}") or b""
        return partitions_of(plan.decode("utf-8", "replace")) or 1

    def _runs(self) -> None:
        query_shape.write(self._notes, shape_of(self._number))


def shape_of(number: int) -> QueryShape:
    """What the home knows of a query."""
    return QueryShape(operators=[OperatorShape(name="count", keys=["key int"], details=[f"from {number}"])])


def place_of(source: int, partition: int, offset: int) -> tuple[int, int]:
    """The place's number in the input, and the offset."""
    return source + partition, offset


def ends_of(sources: Iterable[Mapping[TopicPartition, int]]) -> dict[int, int]:
    """Positions of each source, by the place's number in the input."""
    return {source + place.partition: at for source, found in enumerate(sources) for place, at in found.items()}


def began(checkpoint: Checkpoint) -> dict[int, int]:
    """Where the first epoch of a lineage begins, as its sources have it noted."""
    return ends_of(checkpoint.begins_of_sources(0))


def counts_of(found: Mapping[int, int] | None) -> dict[int, int]:
    """How often each key came, from a state, whichever query it is of."""
    return {key: count % ANOTHER for key, count in (found or {}).items()}
