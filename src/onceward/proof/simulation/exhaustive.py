"""Every way that a small model can go: no luck, no seed.

2 tasks, 2 partitions, 3 epochs; up to 2 crashes, each at any moment; up to 2 delayed messages, each any request to the
broker, which is answered by silence and arrives before any later request, also of a later driver, before or after the
other one, or when all is over. From moments that are alike the search goes on once: the same files, stores, broker and
engine, the same messages on their way, the same looks from outside so far and the same answers to the living driver.
"""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from onceward.proof.simulation.campaign import Violation, explain, in_order, quick
from onceward.proof.simulation.model import Model
from onceward.proof.simulation.moments import Other, Start
from onceward.proof.simulation.patching import Patches, patched
from onceward.proof.simulation.schedule import BY_NAME, Schedule
from onceward.proof.simulation.simulate import simulate
from onceward.proof.simulation.story import condensed

# There are rows in every epoch. Of one seed odd drivers write their ledger entries late, of the other even ones.
MODELS: Final = tuple(
    Schedule(seed, BY_NAME[name]) for name in ("store", "2 stores", "kafka", "kafka+store") for seed in (2, 5)
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bound:
    """How much may go wrong on one way."""

    crashes: int
    delays: int


SHORT: Final = (Bound(2, 0), Bound(1, 1), Bound(0, 2))  # two events: a minute
FULL: Final = (Bound(2, 2),)  # four: hours


@dataclass(slots=True)
class Census:
    """What a search has visited."""

    moments: int = 0  # that differ: starts, requests and ends
    starts: int = 0  # of drivers; one that was known with less to spare counts again
    lives: int = 0  # of drivers, run in part or to their end
    steps: int = 0
    met_again: int = 0  # ways that came to a moment that was known
    violation: Violation | None = None

    def merge(self, other: "Census") -> None:
        """Another kind of pipeline, whose moments are all different ones."""
        self.moments += other.moments
        self.starts += other.starts
        self.lives += other.lives
        self.steps += other.steps
        self.met_again += other.met_again
        self.violation = other.violation


class Agenda(Generic[T]):
    """What is still to be done: first that with the most delays left, which makes much of the rest known."""

    def __init__(self) -> None:
        self._by_delays: dict[int, list[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_delays)

    def __len__(self) -> int:
        return sum(map(len, self._by_delays.values()))

    def add(self, item: T, delays: int) -> None:
        self._by_delays.setdefault(delays, []).append(item)

    def pop(self) -> T:
        """The next one; of those with the same number the newest."""
        most = max(self._by_delays)
        item = self._by_delays[most].pop()
        if not self._by_delays[most]:
            del self._by_delays[most]
        return item


class Visitor:
    """Depth first, from one kind of pipeline."""

    def __init__(self, schedule: Schedule, patches: Patches | None = None) -> None:
        self.schedule, self.patches, self.census = schedule, patches or {}, Census()
        self.model = Model(schedule, self.patches, self)
        self._known: dict[bytes, tuple[tuple[int, int], ...]] = {}
        self._starts = Agenda[Start]()
        self._plans = Agenda[tuple[Other, ...]]()

    def visit(self, bounds: Iterable[Bound], report: Callable[[Census], None] = lambda _: None) -> None:
        """All of it, until a promise is broken."""
        with patched(self.patches):
            for bound in bounds:
                self.start(self.model.first(bound.crashes, bound.delays))
            self._go_on(report)

    def _go_on(self, report: Callable[[Census], None]) -> None:
        while self._starts:
            start = self._starts.pop()
            self._plans.add((), start.delays)
            while self._plans:
                broken = self.model.live(start, self._plans.pop())
                self.census.lives += 1
                self.census.steps += self.model.world.clock - start.clock
                if broken:
                    self.census.violation = self._explain(dict(broken))
                    return
                if self.census.lives % 10_000 == 0:
                    report(self.census)

    def new(self, key: bytes, crashes: int, delays: int) -> bool:
        """Whether this moment was never met before with as much, or more, that may still go wrong."""
        known = self._known.get(key, ())
        if any(more >= crashes and longer >= delays for more, longer in known):
            self.census.met_again += 1
            return False
        self._known[key] = (*known, (crashes, delays))
        self.census.moments += not known
        return True

    def start(self, start: Start) -> None:
        """From here a driver has to start."""
        self.census.starts += 1
        self._starts.add(start, start.delays)

    def other(self, plan: tuple[Other, ...], delays: int) -> None:
        """The same life, but otherwise at its last request."""
        self._plans.add(plan, delays)

    def _explain(self, broken: dict[str, list[str]]) -> Violation:
        """As a schedule that anybody can run, if it breaks the same way there."""
        world = self.model.world
        late = tuple(message.arrives(world.clock) for message in world.pending)
        schedule = Schedule(self.schedule.seed, self.schedule.shape, tuple(sorted((*world.faults, *late))))
        story: list[str] = []
        run = simulate(schedule, self.patches, story)
        if run.violations:
            return explain(run, self.patches)
        return Violation(schedule, broken, schedule, broken, condensed(story))


def visit_all(
    patches: Patches | None = None,
    bounds: tuple[Bound, ...] = SHORT,
    *,
    jobs: int = 1,
    report: Callable[[Census], None] = lambda _: None,
) -> Census:
    """Every kind of pipeline, until a promise is broken. The same comes out whatever `jobs` is."""
    census = Census()
    with closing(in_order(_visit, [(schedule, patches, bounds) for schedule in MODELS], jobs)) as found:
        for part in found:
            census.merge(part)
            if census.violation is not None:
                break
            report(census)
    return census


def _visit(schedule: Schedule, patches: Patches | None, bounds: tuple[Bound, ...]) -> Census:
    with quick():
        visitor = Visitor(schedule, patches)
        visitor.visit(bounds)
    return visitor.census
