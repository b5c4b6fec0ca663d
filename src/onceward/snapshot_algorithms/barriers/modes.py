"""The algorithm: what an operator does when a barrier arrives on one of its inputs. Three ways, and what each costs.

| mode | an input whose barrier is there | records in flight that are stored |
|---|---|---|
| aligned | is blocked until all barriers are | none, but those of back edges |
| at least once | is read on | none, but those of back edges |
| unaligned | is read on; barriers overtake records | all that barriers overtook |
"""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple

from onceward.snapshot_algorithms.barriers.graph import RECORD_BYTES, Edge, Record

Counts = Counter[int]  # an operator's state: how many records of each key it has seen


class Barrier(NamedTuple):
    """Divides what belongs to the snapshot from what does not. `overtaken`: the records that it passed on its edge."""

    number: int
    overtaken: tuple[Record, ...] = ()


@dataclass(slots=True)
class OperatorSnapshot:
    """An operator's state, and the records that were on the way to it."""

    state: Counts
    in_flight: dict[Edge, list[Record]] = field(default_factory=dict)

    @property
    def state_bytes(self) -> int:
        return RECORD_BYTES * len(self.state)

    @property
    def in_flight_bytes(self) -> int:
        return RECORD_BYTES * sum(map(len, self.in_flight.values()))


class Aligned:
    """Exactly once: an input whose barrier has arrived waits for the others, so the state is of exactly one side.

    A back edge's barrier cannot arrive before our own has gone round, so nobody waits for it: the state is recorded
    without it, and what comes along the back edge until then is stored. One snapshot is under way at a time.
    """

    overtakes: ClassVar[bool] = False

    def __init__(self, forward: Collection[Edge], back: Collection[Edge]) -> None:
        self.forward, self.back = frozenset(forward), frozenset(back)
        self.arrived: set[Edge] = set()
        self.blocked: set[Edge] = set()
        self.logged: set[Edge] = set()  # inputs whose records are stored until their barrier arrives
        self.taken: OperatorSnapshot | None = None

    @property
    def complete(self) -> bool:
        return self.taken is not None and not self.logged

    def record_arrived(self, edge: Edge, record: Record) -> None:
        if edge in self.logged and self.taken is not None:
            self.taken.in_flight[edge].append(record)

    def barrier_arrived(self, edge: Edge, barrier: Barrier, state: Counts) -> bool:  # noqa: ARG002 (other modes ask it)
        """True: the state has been recorded now, and the barrier goes on to every output."""
        if edge in self.back:
            self.logged.remove(edge)
            return False
        self.arrived.add(edge)
        self.block(edge)
        if self.arrived != self.forward:
            return False
        self.arrived.clear()
        self.blocked.clear()
        self.take(state, self.back)
        return True

    def block(self, edge: Edge) -> None:
        """The input is not read any more until all barriers are there."""
        self.blocked.add(edge)

    def take(self, state: Counts, logged: Collection[Edge]) -> None:
        self.taken = OperatorSnapshot(Counter(state), {edge: [] for edge in logged})
        self.logged = set(logged)

    def hand_over(self) -> OperatorSnapshot:
        """The finished part; the operator is ready for the next snapshot."""
        taken, self.taken = self.taken, None
        assert taken is not None
        return taken


class AtLeastOnce(Aligned):
    """Nobody waits: records behind an early barrier are in the state, and are replayed after a recovery as well."""

    def block(self, edge: Edge) -> None:
        pass


class Unaligned(Aligned):
    """Nobody waits, exactly once: barriers overtake, and what they overtook is stored. Chandy and Lamport's algorithm,
    with markers that jump the queue and say whom they passed.
    """

    overtakes: ClassVar[bool] = True

    def barrier_arrived(self, edge: Edge, barrier: Barrier, state: Counts) -> bool:
        first = self.taken is None
        if first:
            self.take(state, self.forward | self.back)
        assert self.taken is not None
        self.taken.in_flight[edge].extend(barrier.overtaken)
        self.logged.remove(edge)
        return first


MODES: Final = {"aligned": Aligned, "at least once": AtLeastOnce, "unaligned": Unaligned}
