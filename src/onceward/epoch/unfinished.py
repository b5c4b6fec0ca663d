"""An epoch that is decided and may not be visible everywhere: a start commits it in every sink before all else."""

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from onceward.epoch.checkpoint import kafka_positions
from onceward.epoch.contract import AFTER, Committable, EpochContext
from onceward.epoch.coordinator import Coordinator, Voted
from onceward.epoch.ledger import DONE, Entry, Ledger, SinkEntry
from onceward.epoch.term import Term
from onceward.errors import ConfigurationError, OncewardError

# How long a start repeats a decided commit before it says so, where nobody says otherwise; the next start goes on.
PATIENCE_S: Final = 60.0


def roll_forward(
    entry: Entry,
    coordinator: Coordinator,
    ledger: Ledger,
    term: Term,
    *,
    clock: Callable[[], float],
    now: Callable[[], str],
    trusted: Collection[str],
) -> str:
    """Commit what was voted for, record it as done; what became of it, in words.

    trusted: sinks that a person has looked at; what these hold is not compared once more.
    """
    parts = {
        name: Voted(part.outcome, _committable(part, compare=name not in trusted), dict(part.milliseconds))
        for name, part in entry.sinks.items()
        if name != entry.decider
    }
    missing = sorted(set(parts) - set(coordinator.sinks))
    if missing:
        raise ConfigurationError(
            f"epoch {entry.epoch} is decided and has to be committed in sink {', '.join(map(repr, missing))}, "
            "which the pipeline no longer has. Start it once with its old sinks, or finish it with `onceward resolve`."
        )
    patience = coordinator.patience
    patience_s = patience.seconds if patience is not None else PATIENCE_S
    deadline = clock() + patience_s

    def keep_on() -> None:
        term.require_current()
        if patience is not None:
            patience.keep_on()
        if clock() > deadline:
            raise OncewardError(f"tried for {patience_s:.0f} s")

    context = EpochContext(epoch=entry.epoch, positions=kafka_positions(entry.positions))
    coordinator.commit(context, parts, keep_on)
    sinks = {
        name: msgspec.structs.replace(part, milliseconds=parts[name].milliseconds) if name in parts else part
        for name, part in entry.sinks.items()
    }
    ledger.write(msgspec.structs.replace(entry, phase=DONE, term=term.number, sinks=sinks, finished_at=now()))
    return (
        f"epoch {entry.epoch} was decided by {entry.decided_by} in term {entry.term} and not finished: committed "
        f"in {', '.join(parts)}"
    )


def _committable(part: SinkEntry, *, compare: bool) -> Committable:
    if compare:
        return part.committable
    return {name: value for name, value in part.committable.items() if name != AFTER}
