"""What must be true after each action: the input, and of each pipeline its positions, its state and its outputs. Pure.

It knows no ledger and no checkpoint. A pipeline drops records whose id it has seen, so that what it puts out does not
depend on how records fall into epochs; where epochs end matters only to what a kill leaves behind, and is computed as
Spark's source does it.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

Position = tuple[int, ...]  # by partition
Token = tuple[int, int]  # a lineage, and how many epochs of it: what a sink's marker stands for
KAFKA: Final = "kafka"  # the sink that decides, where it takes part
BEFORE_THE_FIRST: Final = -1


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a pipeline was after an epoch, or where its lineage began."""

    position: Position
    state: frozenset[int]
    held: Mapping[str, Token]  # by sink, also of those that are out
    epochs: Mapping[str, int]  # by sink: how many it has ever got


@dataclass(frozen=True, slots=True)
class Saved:
    """A savepoint."""

    number: int
    pipeline: int
    moment: Moment
    stateful: bool = True


@dataclass(frozen=True, slots=True)
class Wreck:
    """What a killed driver has left.

    in_doubt: an epoch may be decided and is not done. decided: it is. unsure: whether the epoch before is on record
    depends on a thread that was quick or not. kafka: the sink that decides took part.
    """

    sinks: tuple[str, ...]
    in_doubt: bool = False
    decided: bool = False
    unsure: bool = False
    recorded: bool = False  # killed while the engine may have planned the next epoch

    @property
    def kafka(self) -> bool:
        return KAFKA in self.sinks


@dataclass(slots=True)
class Pipeline:
    """One pipeline, from its first start on."""

    number: int
    sinks: tuple[str, ...]  # that it was last started with, or is to be
    partitions: int  # of the input
    lineage: int = 0
    restored: int | None = None  # the savepoint that the lineage began with
    moments: list[Moment] = field(default_factory=list)
    held: dict[str, Token] = field(default_factory=dict)
    epochs: Counter[str] = field(default_factory=Counter)
    outputs: dict[str, Counter[int]] = field(default_factory=dict)
    planned: Position | None = None  # up to where the next epoch reads, if it was planned before a kill
    wreck: Wreck | None = None
    ended: bool = False  # for good: its checkpoint was not to be kept
    unsettled: str = ""  # "yes" or "maybe": what Kafka was asked to decide last has no end on record

    def __post_init__(self) -> None:
        if not self.moments:
            self.moments.append(Moment((0,) * self.partitions, frozenset(), {}, {}))

    @property
    def now(self) -> Moment:
        return self.moments[-1]

    @property
    def done(self) -> int:
        """Epochs of this lineage."""
        return len(self.moments) - 1

    @property
    def has_epoch(self) -> bool:
        """Whether there is one to go on from: its own, or the savepoint's."""
        return self.done > 0 or self.restored is not None

    def begin(self, position: Position, state: frozenset[int], restored: int | None, lineage: int) -> None:
        """Another lineage."""
        self.lineage, self.restored, self.planned, self.wreck, self.ended = lineage, restored, None, None, False
        self.moments = [Moment(position, state, dict(self.held), dict(self.epochs))]
        if self.unsettled:
            self.unsettled = "maybe"

    def re_marks(self, sinks: tuple[str, ...]) -> bool:
        """Whether a start with these sinks writes Kafka's marker anew: it holds none of this lineage's newest epoch."""
        return KAFKA in sinks and self.has_epoch and self.held.get(KAFKA) != (self.lineage, self.done)

    def mark_anew(self, sinks: tuple[str, ...]) -> None:
        if self.re_marks(sinks):
            self.held[KAFKA] = (self.lineage, self.done)
            last = self.now
            self.moments[-1] = Moment(last.position, last.state, dict(self.held), last.epochs)

    def mark_before_the_first(self, sinks: tuple[str, ...]) -> None:
        if KAFKA in sinks and not self.has_epoch:
            self.held[KAFKA] = (self.lineage, BEFORE_THE_FIRST)

    def commit(self, log: "Log", end: Position, sinks: tuple[str, ...]) -> None:
        """An epoch, in these sinks."""
        fresh = set(log.between(self.now.position, end)) - self.now.state
        for sink in sinks:
            self.outputs.setdefault(sink, Counter()).update(fresh)
            self.held[sink] = (self.lineage, self.done + 1)
            self.epochs[sink] += 1
        self.moments.append(Moment(end, self.now.state | fresh, dict(self.held), dict(self.epochs)))
        self.planned = None


@dataclass(slots=True)
class Log:
    """The input topic: ids by partition, as they were fed."""

    partitions: int
    limit: int  # records of an epoch
    ids: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ids = self.ids or [[] for _ in range(self.partitions)]

    @property
    def end(self) -> Position:
        return tuple(map(len, self.ids))

    def between(self, begin: Position, end: Position) -> Iterator[int]:
        for ids, first, last in zip(self.ids, begin, end, strict=True):
            yield from ids[first:last]

    def epochs(self, begin: Position, planned: Position | None) -> list[Position]:
        """Where the epochs of a run end that reads all there is."""
        found: list[Position] = []
        at = begin
        if planned is not None:
            found.append(planned)
            at = planned
        while at != self.end:
            at = self._next(at)
            found.append(at)
        return found

    def _next(self, begin: Position) -> Position:
        """As Spark's Kafka source shares its limit out over partitions."""
        sizes = [end - at for at, end in zip(begin, self.end, strict=True)]
        total = float(sum(sizes))
        ends = []
        for at, size, end in zip(begin, sizes, self.end, strict=True):
            share = self.limit * (size / total)
            ends.append(min(end, at + (math.ceil(share) if share < 1 else math.floor(share))) if size > 0 else end)
        return tuple(ends)


@dataclass(slots=True)
class World:
    """All pipelines of a sequence, their common input, and what was saved."""

    log: Log
    pipelines: list[Pipeline] = field(default_factory=list)
    saved: dict[int, Saved] = field(default_factory=dict)
    lineages: int = 0
    savepoints: int = 0  # names that were given out

    def fresh_lineage(self) -> int:
        self.lineages += 1
        return self.lineages
