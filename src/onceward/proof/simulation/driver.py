"""One driver from its start to its end: what `onceward.pipeline` does around the epoch, without Spark.

The coordinator, the take-over, the recovery decision, the ledger, decisions, terms and the checkpoint's reader are the
production ones. `Runner` and `Journal` follow `pipeline/runner.py` and `pipeline/opening.py`, which need pyspark.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from onceward.epoch import term as terms
from onceward.epoch.contract import EpochContext, Guarantee, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Attempted, Coordinator, Voted
from onceward.epoch.decisions import Decisions
from onceward.epoch.home import Home
from onceward.epoch.ledger import DECIDED, DONE, LEDGER, PREPARED, Entry, Ledger, SinkEntry
from onceward.epoch.outcome import Outcome
from onceward.epoch.recovery import compare_replay, expected_outcomes
from onceward.epoch.storage import Storage
from onceward.epoch.takeover import TakeOver
from onceward.epoch.term import Holder, Term
from onceward.errors import (
    CommitUnfinished,
    CommitUnproven,
    ConfigurationError,
    LedgerCorrupt,
    PipelineFenced,
    ReplayDiverged,
    StagingLost,
)
from onceward.pipeline.checkpoint import Checkpoint, Positions
from onceward.proof.simulation.disk import Mount
from onceward.proof.simulation.engine import Batch, Engine, Query, of_rows
from onceward.proof.simulation.world import Driver, World

PIPELINE: Final = "p"
FINAL: Final = (
    CommitUnfinished, CommitUnproven, ConfigurationError, LedgerCorrupt, PipelineFenced, ReplayDiverged, StagingLost,
)  # fmt: skip


class Journal:
    """What the coordinator writes down about one epoch (`pipeline/runner.py`)."""

    def __init__(self, runner: "Runner", context: EpochContext, positions: Positions) -> None:
        self.runner, self.context, self.positions = runner, context, positions

    def ready(self) -> None:
        """The positions and every earlier epoch are durable, and no newer driver has started."""
        self.runner.checkpoint.sync_positions(self.context.epoch)
        self.runner.await_record()
        self.runner.run.term.require_current()

    def prepare(self, attempted: Attempted) -> None:
        """The votes, before Kafka is asked."""
        self.runner.run.ledger.write(self.entry(attempted, PREPARED))

    def decide(self, attempted: Attempted) -> None:
        """The ledger's decision, then: is this driver current? Else its successor finishes it."""
        self.runner.run.decisions.decide(self.entry(attempted, DECIDED))
        self.runner.run.term.require_current()

    def entry(self, attempted: Attempted, phase: str) -> Entry:
        """The epoch as it goes into ledger or decision."""
        return self.runner.entry(self.context, self.positions, attempted, phase)


def as_it_is(mount: Mount) -> Storage:
    """The disk without a bug. A name, since parts travel to other processes."""
    return mount


@dataclass(frozen=True, slots=True)
class Parts:
    """What a driver is made of. A planted bug replaces one of them."""

    coordinator: type[Coordinator] = Coordinator
    take_over: type[TakeOver] = TakeOver
    decisions: type[Decisions] = Decisions
    ledger: type[Ledger] = Ledger
    term: type[Term] = Term
    journal: type[Journal] = Journal
    runner: "type[Runner] | None" = None
    store: Any = None
    store_sink: Any = None
    broker: Any = None
    kafka_sink: Any = None
    transactor: Any = None
    mount: Callable[[Mount], Storage] = as_it_is


class Runner:
    """An epoch in the engine's callback (`pipeline/runner.py`)."""

    def __init__(self, run: TakeOver, checkpoint: Checkpoint, journal: type[Journal], *, lags: bool) -> None:
        self.run, self.checkpoint = run, checkpoint
        self._journal = journal
        self._lags = lags  # the last entry is written in the background: before the next epoch, or during it
        self._recording: Entry | None = None
        run.coordinator.keep_on = run.term.require_current

    def __call__(self, batch: Batch, epoch: int) -> None:
        """One epoch: run it, or run it again without writing if it is out."""
        positions = self.checkpoint.positions(epoch)
        context = EpochContext(epoch=epoch, positions=positions.kafka)
        if epoch <= self.run.recovered.committed:
            self.replay(context, positions, batch)
        else:
            self.run_once(context, positions, batch)

    def run_once(self, context: EpochContext, positions: Positions, batch: Batch) -> None:
        """The normal way."""
        rows = dict.fromkeys(self.run.sinks, batch)
        journal = self._journal(self, context, positions)
        attempted = self.run.coordinator.run(context, rows, journal, lambda some: of_rows(some.rows(0, 0)))
        self._recording = self.entry(context, positions, attempted, DONE)
        if not self._lags:
            self.await_record()

    def replay(self, context: EpochContext, positions: Positions, batch: Batch) -> None:
        """The epoch is out: rebuild the state by running it, compare, write nothing."""
        run, pipeline = self.run, self.run.owner.pipeline
        expected = expected_outcomes(
            context, positions.texts, run.recovered, run.ledger, pipeline=pipeline, sinks=run.sinks
        )
        now = {name: self._digest(context, sink, batch) for name, sink in run.sinks.items()}
        diverged = compare_replay(pipeline, context.epoch, expected, now)
        if diverged is not None:
            raise diverged
        if run.ledger.read(context.epoch) is None:
            parts = {name: Voted(outcome) for name, outcome in expected.items()}
            self.record(self.entry(context, positions, Attempted(parts, 0), DONE))

    def record(self, entry: Entry) -> None:
        """The epoch is done."""
        self.run.term.require_current()
        self.run.ledger.write(entry)

    def await_record(self) -> None:
        """No epoch is decided before its predecessor is in the ledger."""
        if self._recording is not None:
            self.record(self._recording)
            self._recording = None

    def entry(self, context: EpochContext, positions: Positions, attempted: Attempted, phase: str) -> Entry:
        """An epoch for the ledger."""
        owner = self.run.owner
        sinks = {
            name: SinkEntry.of(voted.outcome, committable=dict(voted.committable))
            for name, voted in attempted.sinks.items()
        }
        return Entry(
            pipeline=owner.pipeline,
            lineage=owner.lineage,
            term=owner.term,
            epoch=context.epoch,
            phase=phase,
            positions=positions.texts,
            decider=self.run.coordinator.decider or LEDGER,
            sinks=sinks,
            rows=attempted.rows,
            attempts=attempted.attempts,
        )

    @staticmethod
    def _digest(context: EpochContext, sink: TwoPhaseCommitSink, batch: Batch) -> Outcome:
        found = sink.digest(context, batch)
        assert found is not None
        return found


def drive(world: World, driver: Driver, parts: Parts, engine: Engine, sinks: Mapping[str, TwoPhaseCommitSink]) -> None:
    """A process: take the home over, recover, run epoch after epoch until the input ends."""
    try:
        _drive(world, driver, parts, engine, sinks)
    except Exception as error:  # noqa: BLE001 - whatever it is, the checkers judge it
        kind = "OSError" if isinstance(error, OSError) else type(error).__name__
        world.ended(kind, str(error))
    else:
        world.ended("finished")


def _drive(world: World, driver: Driver, parts: Parts, engine: Engine, sinks: Mapping[str, TwoPhaseCommitSink]) -> None:
    storage = parts.mount(world.mount())
    home = Home(storage, "home", "home/checkpoint")
    deed = home.open(PIPELINE, Guarantee.EXACTLY_ONCE.value, f"lineage{driver.number}")
    claimed = terms.acquire(
        storage, _holder(driver), is_dead=lambda _: True, clock=world.time, sleep=world.sleep, take_over=True
    )
    term = parts.term(storage, claimed.number, claimed.holder, claimed.count)
    driver.term = term.number
    checkpoint, query = Checkpoint(home), Query(engine, world)
    run = parts.take_over(
        owner=Owner(pipeline=PIPELINE, lineage=deed.lineage, term=term.number, guarantee=Guarantee.EXACTLY_ONCE),
        coordinator=parts.coordinator(
            sinks, is_final=lambda error: isinstance(error, FINAL), clock=world.time, sleep=world.sleep
        ),
        checkpoint=checkpoint,
        ledger=parts.ledger(storage, terms.boundaries(storage), deed.lineage),
        decisions=parts.decisions(storage, deed.lineage, term.number),
        term=term,
        clock=world.time,
        now=lambda: "",
        report=world.tell,
    )
    run.recover()
    world.began(term.number, run.recovered.committed)
    lags = bool((world.schedule.seed + driver.number) % 2)
    runner = (parts.runner or Runner)(run, checkpoint, parts.journal, lags=lags)
    query.open()
    planned, done = query.last()
    epoch = planned + 1 if done else planned
    while epoch < engine.epochs:
        batch = query.batch(epoch, planned=epoch <= planned)
        runner(batch, epoch)
        query.finish(epoch, batch)
        world.observe()
        epoch += 1
    runner.await_record()
    term.release()


def _holder(driver: Driver) -> Callable[[int], Holder]:
    return lambda number: Holder(
        term=number, pipeline=PIPELINE, host="h", machine="m", pid=driver.number, process_start="", since=""
    )
