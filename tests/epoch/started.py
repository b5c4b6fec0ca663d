# ruff: noqa: ARG002 - a sink's methods take what the contract says
"""A started pipeline in memory: the production start and runner over sinks that keep their rows in lists."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from epoch.memory import Memory
from onceward import errors
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint, Positions
from onceward.epoch.contract import (
    DecidingSink,
    EpochContext,
    Guarantee,
    LastCommit,
    TwoPhaseCommitSink,
    Verdict,
)
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.home import Home
from onceward.epoch.outcome import Outcome
from onceward.epoch.patience import Patience
from onceward.epoch.ports import Process
from onceward.epoch.recovery import Consent
from onceward.epoch.runner import EpochRunner
from onceward.epoch.starting import Opened, Start
from onceward.epoch.storage import Storage
from onceward.epoch.takeover import TakenOver
from onceward.epoch.term import Holder, Term
from support.clocks import MONOTONIC


@dataclass
class Place:
    """What a target holds; it outlives drivers."""

    staged: dict[tuple[int, int, int], list[str]] = field(default_factory=dict)
    rows: list[str] = field(default_factory=list)
    marker: LastCommit | None = None


class ListSink(TwoPhaseCommitSink):
    """Staged by try, published with its marker."""

    def __init__(self, place: Place, steps: list[str]) -> None:
        self.place, self.steps = place, steps

    def last_commit(self) -> LastCommit | None:
        return self.place.marker

    def begin(self, context: EpochContext) -> None:
        self.steps.append("begin")

    def write(self, context: EpochContext, rows: list[str]) -> Outcome:
        self.steps.append("write")
        if self.owner.guarantee is Guarantee.EXACTLY_ONCE:
            self.place.staged[self._which(context)] = rows
        else:
            self.place.rows += rows
        return Outcome(rows=len(rows))

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Mapping[str, Any]:
        self.steps.append("vote")
        return {"version": 1, "try": list(self._which(context))}

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        self.steps.append("commit")
        if self.owner.guarantee is not Guarantee.EXACTLY_ONCE:
            return  # written already
        marker = self.place.marker
        if marker is None or marker.lineage != self.owner.lineage or marker.epoch < context.epoch:
            epoch, term, attempt = committable["try"]
            self.place.rows += self.place.staged.pop((epoch, term, attempt))
            self.place.marker = LastCommit(lineage=self.owner.lineage, epoch=context.epoch, term=self.owner.term)

    def abort(self, context: EpochContext) -> None:
        self.steps.append("abort")
        for which in [which for which in self.place.staged if which[0] <= context.epoch]:
            del self.place.staged[which]

    def digest(self, context: EpochContext, rows: list[str]) -> Outcome | None:
        return Outcome(rows=len(rows))

    def _which(self, context: EpochContext) -> tuple[int, int, int]:
        return (context.epoch, self.owner.term, context.attempt)


class ListDecider(ListSink, DecidingSink):
    """Its own commit decides."""

    def peek(self, pipeline: str) -> LastCommit | None:
        return self.place.marker

    def write_marker(self, last: LastCommit) -> None:
        self.steps.append(f"marker {last.epoch}")
        self.place.marker = last

    def decide(self, context: EpochContext, committable: Mapping[str, Any]) -> Verdict:
        self.steps.append("decide")
        ListSink.commit(self, context, committable)
        return Verdict.COMMITTED

    def commit(self, context: EpochContext, committable: Mapping[str, Any]) -> None:
        pass


@dataclass
class Rows:
    """A batch: every sink gets the same rows."""

    values: list[str]
    sinks: list[str]
    late: int = 0

    def prepare(self, epoch: int, positions: Positions) -> None:
        pass

    @contextmanager
    def rows(self, context: EpochContext) -> Iterator[Mapping[str, list[str]]]:
        yield dict.fromkeys(self.sinks, self.values)

    def count(self, rows: list[str]) -> Outcome:
        return Outcome(rows=len(rows))

    def rows_read(self) -> int | None:
        return len(self.values)

    def late_rows(self) -> int:
        return self.late


class Later:
    """Work beside the epoch, done when somebody waits for it; `steps` tells when that was."""

    def __init__(self, steps: list[str]) -> None:
        self.steps = steps
        self.waiting: list[Work] = []

    def submit(self, work: Callable[[], None]) -> "Work":
        made = Work(work, self)
        self.waiting.append(made)
        return made

    def close(self) -> None:
        for work in [*self.waiting]:
            work.result()


class Work:
    def __init__(self, work: Callable[[], None], later: Later) -> None:
        self.work, self.later = work, later

    def result(self) -> None:
        if self in self.later.waiting:
            self.later.waiting.remove(self)
            self.later.steps.append("beside")
            self.work()


class Asked:
    """Whether somebody has asked to stop."""

    def __init__(self) -> None:
        self.stop = False

    def is_set(self) -> bool:
        return self.stop

    def wait(self, timeout: float) -> None:
        pass


class Kept:
    """A lease that nobody waits for."""

    def __init__(self, term: Term) -> None:
        self._term = term

    def release(self) -> None:
        self._term.release()


@dataclass
class Pipeline:
    """A home in memory with a sink `s`, which decides or not, and `others`, which do not; each `start` is a driver.

    `kind`: sinks with habits of their own. Time passes while somebody sleeps, and as a test says.
    """

    decides: bool = False
    kind: type[ListSink] | None = None
    others: dict[str, Place] = field(default_factory=dict)
    deciding: str = "s"  # what that sink is called
    out: set[str] = field(default_factory=set)  # sinks that were taken out of it
    told: list[str] = field(default_factory=list)  # what its starts say
    overruled: list[str] = field(default_factory=list)  # and what they ask a person about
    fits: Callable[[Home], None] = lambda _: None
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    storage: Memory = field(default_factory=Memory)
    place: Place = field(default_factory=Place)
    steps: list[str] = field(default_factory=list)
    now: float = MONOTONIC
    patience_s: float | None = None

    @property
    def waited(self) -> float:
        """How much time has passed."""
        return self.now - MONOTONIC

    def start(self, *, trust: Iterable[str] = (), wired: Mapping[str, Any] | None = None, **consent: Any) -> "Driver":
        """`wired`: what the runner is told besides."""
        asked = Asked()
        opened = self.starting.take_over(
            lambda _: Coordinator(
                self.sinks(), is_final=lambda error: isinstance(error, errors.FINAL), clock=lambda: self.now,
                sleep=self.sleep, patience=self.patience(),
            ),
            asked,
            consent=Consent(trust_ledger=frozenset(trust), confirm=self.overruled.extend, **consent),
        )  # fmt: skip
        later = Later(self.steps)
        runner = EpochRunner(opened.taken, later, asked, lambda: self.now, lambda: "noon", **(wired or {}))
        return Driver(
            self,
            opened.taken,
            runner,
            asked,
            opened,
            f"{inside}/" if (inside := opened.home.location.removeprefix("home").lstrip("/")) else "",
        )

    @property
    def notes(self) -> Storage:
        """What the newest driver has written down for its successors."""
        deed = self.home.deed()
        assert deed is not None
        return Checkpoint.newest(self.home.of_lineage(deed)).notes

    @property
    def starting(self) -> Start:
        """Whoever drove the home before is taken for gone."""
        return Start(
            home=self.home,
            pipeline="p",
            guarantee=self.guarantee,
            sinks=self.sinks(),
            process=self.process,
            fits=self.fits,
            report=self.told.append,
        )

    @property
    def process(self) -> Process:
        """One after the other, each gone when the next one looks."""
        return Process(
            clock=lambda: self.now,
            sleep=self.sleep,
            now=lambda: "noon",
            fresh=lambda: "L",
            holder=lambda pipeline, number: Holder(
                term=number, pipeline=pipeline, host="h", machine="m", pid=1, process_start="1", since="noon"
            ),
            is_gone=lambda _: True,
            keep=Kept,
        )

    @property
    def home(self) -> Home:
        return Home(self.storage, "home", "home")

    def claim(self) -> Term:
        """The next term; whoever had the last one is taken for gone."""
        return terms.acquire(
            self.storage,
            lambda number: self.process.holder("p", number),
            is_gone=lambda _: True,
            clock=lambda: self.now,
            sleep=lambda _: None,
        )

    def sinks(self) -> dict[str, TwoPhaseCommitSink]:
        deciding = ListDecider if self.decides else ListSink
        kind = type("Kind", (self.kind, deciding), {}) if self.kind is not None else deciding
        sinks: dict[str, TwoPhaseCommitSink] = {self.deciding: kind(self.place, self.steps)}
        sinks |= {name: (self.kind or ListSink)(place, self.steps) for name, place in self.others.items()}
        return {name: sink for name, sink in sinks.items() if name not in self.out}

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def patience(self) -> Patience | None:
        if self.patience_s is None:
            return None
        return Patience(self.patience_s, clock=lambda: self.now, sleep=self.sleep)


@dataclass
class Driver:
    """One life of it; plays Spark's part too."""

    pipeline: Pipeline
    taken: TakenOver
    runner: EpochRunner
    asked: Asked
    opened: Opened
    inside: str = ""  # the lineage's own folder, with a slash behind it

    def end(self) -> None:
        """In order."""
        self.runner.close()
        self.opened.close()

    def plan(self, epoch: int, end: int) -> None:
        """As Spark does before it asks anybody."""
        files, folder = self.pipeline.storage.files, f"{self.inside}{self.taken.checkpoint.folder}"
        files.setdefault(f"{folder}/metadata", b'{"id":"q"}')
        files[f"{folder}/offsets/{epoch}"] = f'v1\n{{}}\n{{"in":{{"0":{end}}}}}'.encode()

    def run(self, epoch: int, *values: str, end: int | None = None, late: int = 0) -> None:
        """Plan, run and finish an epoch."""
        self.plan(epoch, end if end is not None else epoch + 1)
        self.runner(Rows(list(values), list(self.taken.sinks), late), epoch)
        self.pipeline.storage.files[f"{self.inside}{self.taken.checkpoint.folder}/commits/{epoch}"] = b"v1\n{}"
