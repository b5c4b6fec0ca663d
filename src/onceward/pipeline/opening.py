"""Taking a home over: its term, its sinks, what is out, and what the driver before left in doubt.

A start does it before its query runs, `onceward resolve` does it and nothing more.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import msgspec
from pyspark.errors import AnalysisException

from onceward import crashpoints
from onceward.epoch import term as terms
from onceward.epoch.contract import EpochContext, Guarantee, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Coordinator, Voted
from onceward.epoch.decisions import Decisions
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, LEDGER, PREPARED, Entry, Ledger
from onceward.epoch.recovery import NEVER, Known, Recovered, by_ledger, by_marker, check_marker
from onceward.errors import (
    CommitUnfinished,
    CommitUnproven,
    ConfigurationError,
    LedgerCorrupt,
    OncewardError,
    PipelineFenced,
    RecordTooLarge,
    ReplayDiverged,
    StagingLost,
)
from onceward.pipeline.checkpoint import Checkpoint
from onceward.pipeline.lease import LeaseKeeper, is_dead, this_process

PATIENCE_S: Final = 60.0  # how long a start repeats a decided commit before it says so; the next start goes on
# Doing these again would give the same: the pipeline stops and says so.
FINAL: Final = (
    AnalysisException,
    CommitUnfinished,
    CommitUnproven,
    ConfigurationError,
    LedgerCorrupt,
    PipelineFenced,
    RecordTooLarge,
    ReplayDiverged,
    StagingLost,
)

log = logging.getLogger("onceward.pipeline")


@dataclass(slots=True)
class Opened:
    """A home that is ours until `close`."""

    owner: Owner
    coordinator: Coordinator
    checkpoint: Checkpoint
    ledger: Ledger
    decisions: Decisions
    term: terms.Term
    lease: LeaseKeeper
    recovered: Recovered = field(default_factory=lambda: Recovered(NEVER))
    resolved: list[str] = field(default_factory=list)

    @property
    def sinks(self) -> dict[str, TwoPhaseCommitSink]:
        """By name, the decider last."""
        return self.coordinator.sinks

    def close(self) -> None:
        """Connections and lease go, whatever else fails."""
        try:
            for sink in self.sinks.values():
                sink.close()
        finally:
            self.lease.release()


def take_over(
    home: Home,
    pipeline: str,
    guarantee: Guarantee,
    sinks: Mapping[str, TwoPhaseCommitSink],
    *,
    at_once: bool = False,
    trust_ledger: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> Opened:
    """Claim the next term, fence, find out what is out, finish what was decided, abort what was not."""
    deed = home.open(pipeline, guarantee.value, uuid.uuid4().hex)
    term = terms.acquire(
        home.storage,
        lambda number: this_process(pipeline, number),
        is_dead=is_dead,
        clock=time.monotonic,
        sleep=time.sleep,
        take_over=at_once,
        report=report,
    )
    lease = LeaseKeeper(term)
    owner = Owner(pipeline=pipeline, lineage=deed.lineage, term=term.number, guarantee=guarantee)
    coordinator = Coordinator(
        sinks,
        is_final=lambda error: isinstance(error, FINAL),
        clock=time.monotonic,
        sleep=time.sleep,
    )
    opened = Opened(
        owner=owner,
        coordinator=coordinator,
        checkpoint=Checkpoint(home),
        ledger=Ledger(home.storage, terms.boundaries(home.storage), owner.lineage),
        decisions=Decisions(home.storage, owner.lineage, owner.term),
        term=term,
        lease=lease,
    )
    try:
        _recover(opened, trust_ledger=trust_ledger, report=report)
    except BaseException:
        opened.close()
        raise
    return opened


def _recover(opened: Opened, *, trust_ledger: bool, report: Callable[[str], None]) -> None:
    """Fence first, then read: the other way round, an older driver could commit in between."""
    for name, sink in reversed(opened.sinks.items()):
        sink.open(replace(opened.owner, sink=name))
    if opened.owner.guarantee is Guarantee.EXACTLY_ONCE:
        lasts = {name: sink.last_commit() for name, sink in opened.sinks.items() if sink.remembers}
        opened.recovered = _conclude(opened, lasts, trust_ledger=trust_ledger)
        opened.checkpoint.require_intact(opened.recovered.committed)
        _resolve(opened, report)
        opened.term.begin(opened.recovered.committed, opened.resolved)
    crashpoints.reach("recovered")


def _conclude(opened: Opened, lasts: Mapping[str, LastCommit | None], *, trust_ledger: bool) -> Recovered:
    decider = opened.coordinator.decider
    known = Known(
        pipeline=opened.owner.pipeline,
        lineage=opened.owner.lineage,
        term=opened.owner.term,
        recorded=opened.ledger.last(),
        pending=opened.checkpoint.planned(),
        trust_ledger=trust_ledger,
    )
    others = [name for name in opened.sinks if name != decider]
    _require_same_decider(opened, known)
    opened.term.require_current()
    if decider is not None:
        recovered = by_marker(known, decider, lasts[decider], opened.ledger, others)
    else:
        recovered = by_ledger(known, opened.decisions.last())
        while opened.decisions.close(recovered.committed + 1) is not None:  # a driver that woke was quicker
            recovered = by_ledger(known, opened.decisions.last())
    for name in others:
        if name in lasts:
            check_marker(known, recovered, name, lasts[name])
    return recovered


def _require_same_decider(opened: Opened, known: Known) -> None:
    """An epoch in doubt is settled by whoever was to decide it, before a pipeline gets or loses its Kafka sink."""
    done = known.recorded.epoch if known.recorded is not None else NEVER
    voted, decided, decider = opened.ledger.last(PREPARED), opened.decisions.last(), opened.coordinator.decider
    waiting = decided if decider is not None else voted
    if waiting is not None and waiting.epoch > done and waiting.decider != (decider or LEDGER):
        raise ConfigurationError(
            f"epoch {waiting.epoch} of {known.pipeline!r} is in doubt, and {waiting.decider} was to decide it; the "
            "pipeline's sinks have changed since. Start it once with its old sinks, or finish the epoch with "
            "`onceward resolve`."
        )


def _resolve(opened: Opened, report: Callable[[str], None]) -> None:
    """Roll forward what was decided; abort what was not."""
    entry, following = opened.recovered.unfinished, opened.recovered.committed + 1
    if entry is not None:
        report(f"epoch {entry.epoch} is decided and may not be visible everywhere: finishing it")
        crashpoints.reach("resolving", entry.epoch)
        _roll_forward(opened, entry)
    voted = opened.ledger.read(following)
    if voted is not None and voted.phase == PREPARED:
        opened.resolved.append(f"epoch {following} was voted for in term {voted.term} and not decided: aborted, redone")
    opened.coordinator.abort(EpochContext(epoch=following, attempt=0))
    for line in opened.resolved:
        report(line)


def _roll_forward(opened: Opened, entry: Entry) -> None:
    parts = {
        name: Voted(part.outcome, part.committable, dict(part.milliseconds))
        for name, part in entry.sinks.items()
        if name != entry.decider
    }
    missing = sorted(set(parts) - set(opened.sinks))
    if missing:
        raise ConfigurationError(
            f"epoch {entry.epoch} is decided and has to be committed in sink {', '.join(map(repr, missing))}, which "
            "the pipeline no longer has. Start it once with its old sinks, or finish it with `onceward resolve`."
        )
    deadline = time.monotonic() + PATIENCE_S

    def keep_on() -> None:
        opened.term.require_current()
        if time.monotonic() > deadline:
            raise OncewardError(f"tried for {PATIENCE_S:.0f} s")

    opened.coordinator.keep_on = keep_on
    opened.coordinator.commit(
        EpochContext(epoch=entry.epoch, positions=opened.checkpoint.kafka_positions(entry.positions)), parts
    )
    done = msgspec.structs.replace(
        entry, phase=DONE, term=opened.owner.term, finished_at=datetime.now(UTC).isoformat(timespec="milliseconds")
    )
    opened.ledger.write(done)
    opened.resolved.append(
        f"epoch {entry.epoch} was decided ({entry.decider}) in term {entry.term} and not finished: committed in "
        f"{', '.join(parts)}"
    )
