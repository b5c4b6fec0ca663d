"""One schedule of reading from beginning to end: makes the logs, lets a production reader read, and judges it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from onceward.epoch.outcome import TopicPartition
from onceward.kafka import ranges, reading, walking
from onceward.kafka.ranges import Range, RangeReader
from onceward.kafka.reading import Reader
from onceward.kafka.wire import SETTLE_TIMEOUT_S
from onceward.proof.simulation.reading.checking import Broken, Excuses, Seen, compared, judged, together
from onceward.proof.simulation.reading.copying import Copying
from onceward.proof.simulation.reading.log import Head, Log, Row
from onceward.proof.simulation.reading.schedule import Schedule
from onceward.proof.simulation.reading.wire import Stuck
from onceward.proof.simulation.reading.world import TOPIC, World


@dataclass(frozen=True, slots=True)
class Run:
    """What came of a schedule."""

    schedule: Schedule
    violations: Mapping[str, list[str]]
    requests: int
    ended: str  # "whole", or the error's name
    reached: frozenset[str]


@dataclass(slots=True)
class _Read:
    """What one reader asks for and gets, partition by partition."""

    world: World
    bounds: dict[TopicPartition, tuple[int, int]]
    wanted: Callable[[Log, int, int], list[Any]]
    takes_old: bool
    patience_s: float
    got: dict[TopicPartition, list[Any]] = field(default_factory=dict)

    def judged(self, read: Iterator[tuple[TopicPartition, Any]]) -> tuple[dict[str, list[str]], str]:
        """Everything is read; then it is compared."""
        asked = {place: self.wanted(self.world.logs[place], *bounds) for place, bounds in self.bounds.items()}
        error: Exception | None = None
        try:
            for place, one in read:
                self.got.setdefault(place, []).append(one)
        except Stuck as stuck:
            return {"progress": [str(stuck)]}, "Stuck"
        except Exception as found:  # noqa: BLE001 - whatever it is, it is judged
            error = found
        broken = [compared(Seen(str(it), asked[it], self.got.get(it, []), error is None)) for it in asked]
        if error is not None:
            broken.append(judged(error, [self._excuses(place) for place in self.bounds]))
        return together(broken), "whole" if error is None else type(error).__name__

    def _excuses(self, place: TopicPartition) -> Excuses:
        start, end = self.bounds[place]
        return self.world.excuses(place, start, end, takes_old=self.takes_old, patience_s=self.patience_s)


def _ranges(world: World) -> tuple[dict[str, list[str]], str]:
    bounds = {place: world.range_of(log, log.stable) for place, log in world.logs.items()}
    ask = [Range(place, *it, is_compacted=world.may_miss) for place, it in bounds.items()]
    job = _Read(world, bounds, Log.rows, takes_old=False, patience_s=ranges.PATIENCE_S)

    def read() -> Iterator[tuple[TopicPartition, tuple[bytes | None, bytes | None]]]:
        for one, records in RangeReader(world.wire, world.net.clock).read(ask):
            if not len(records):
                raise Broken("no-empty-call", f"{one.place}: nothing was given")
            for key, value in zip(records.key.to_pylist(), records.value.to_pylist(), strict=True):
                yield one.place, (key, value)

    job.wanted = lambda log, start, end: [(it.key, it.value) for it in log.rows(start, end)]
    return job.judged(read())


def _records(world: World) -> tuple[dict[str, list[str]], str]:
    committed = world.dice.random() < 0.7
    bounds = {place: world.range_of(log, log.stable if committed else log.end) for place, log in world.logs.items()}
    job = _Read(
        world,
        bounds,
        lambda log, start, end: log.rows(start, end, committed=committed),
        takes_old=True,
        patience_s=reading.PATIENCE_S,
    )
    reader = Reader(
        world.wire,
        {place: start for place, (start, _) in bounds.items()},
        committed=committed,
        compacted=[TOPIC] if world.may_miss else [],
        clock=world.net.clock,
    )
    found = reader.until({place: end for place, (_, end) in bounds.items()})
    return job.judged((it.place, Row(it.offset, it.key, it.value)) for it in found)


def _headers(world: World) -> tuple[dict[str, list[str]], str]:
    place = next(iter(world.logs))
    bounds = {place: world.range_of(world.logs[place], world.logs[place].end)}
    job = _Read(world, bounds, Log.heads, takes_old=False, patience_s=SETTLE_TIMEOUT_S)
    found = walking.batches(world.wire, place, *bounds[place], world.net.clock)
    return job.judged((place, Head(it.base_offset, it.last_offset, it.producer_id, aborts)) for it, aborts in found)


READERS: Final[Mapping[str, Callable[[World], tuple[dict[str, list[str]], str]]]] = {
    "ranges": _ranges,
    "records": _records,
    "headers": _headers,
    "copies": lambda world: Copying.of(world).run(),
}


def simulate(schedule: Schedule, story: list[str] | None = None) -> Run:
    """From beginning to end."""
    world = World.of(schedule, story)
    violations, ended = READERS[schedule.who](world)
    return Run(schedule, violations, world.net.requests, ended, frozenset(world.net.reached))
