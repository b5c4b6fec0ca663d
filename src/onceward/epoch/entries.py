"""An epoch as it goes into the ledger."""

from collections.abc import Callable, Mapping

from onceward.epoch import skips
from onceward.epoch.checkpoint import Checkpoint, Positions
from onceward.epoch.contract import EpochContext, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Attempted, Voted
from onceward.epoch.ledger import DONE, Entry, Ledger, SinkEntry


class EntryMaker:
    """Makes one driver's entries."""

    def __init__(
        self, owner: Owner, sinks: Mapping[str, TwoPhaseCommitSink], decider: str | None, now: Callable[[], str]
    ) -> None:
        self._owner = owner
        self._decider = decider
        self._now = now
        self._kinds = {name: kind_of(sink) for name, sink in sinks.items()}
        self._settings = {name: sink.describe() for name, sink in sinks.items()}

    def entry(self, context: EpochContext, positions: Positions, attempted: Attempted, phase: str) -> Entry:
        """One epoch in one of the ledger's phases."""
        return Entry(
            pipeline=self._owner.pipeline,
            lineage=self._owner.lineage,
            term=self._owner.term,
            epoch=context.epoch,
            phase=phase,
            positions=positions.texts,
            plan=positions.plan,
            decider=self._decider,
            sinks={name: self._sink_entry(name, voted) for name, voted in attempted.sinks.items()},
            input_rows=attempted.input_rows,
            skipped=[str(it.place) for it in context.skipped],
            attempts=attempted.attempts,
            finished_at=self._now(),
            milliseconds=attempted.milliseconds,
        )

    def made_up_for(
        self, ledger: Ledger, checkpoint: Checkpoint, epoch: int, positions: Positions, parts: dict[str, Voted]
    ) -> None:
        """The entry of a committed epoch whose driver died before it wrote one."""
        passed = checkpoint.passed_over(skips.read(checkpoint.notes.read(skips.FILE)), epoch, positions)
        context = EpochContext(epoch=epoch, positions=positions.kafka, skipped=passed)
        ledger.write(self.entry(context, positions, Attempted(parts, 1), DONE))

    def _sink_entry(self, name: str, voted: Voted) -> SinkEntry:
        kind, settings = self._kinds[name], self._settings[name]
        return SinkEntry.of(
            voted.outcome,
            kind=kind,
            settings=dict(settings) if settings is not None else None,
            committable=dict(voted.committable),
            milliseconds=voted.milliseconds,
        )


def kind_of(sink: TwoPhaseCommitSink) -> str:
    """A sink's class, as entries name it."""
    return f"{type(sink).__module__}:{type(sink).__qualname__}"
