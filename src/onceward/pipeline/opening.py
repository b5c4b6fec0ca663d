"""Taking a home over for this process. A start does it before its query runs, `onceward resolve` and nothing more."""

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyspark.errors import AnalysisException

from onceward.epoch import term as terms
from onceward.epoch.contract import Guarantee, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.decisions import Decisions
from onceward.epoch.home import Home
from onceward.epoch.ledger import Ledger
from onceward.epoch.takeover import TakeOver
from onceward.errors import (
    CommitUnfinished,
    CommitUnproven,
    ConfigurationError,
    LedgerCorrupt,
    PipelineFenced,
    RecordTooLarge,
    ReplayDiverged,
    RowsDropped,
    StagingLost,
)
from onceward.pipeline.checkpoint import Checkpoint
from onceward.pipeline.lease import LeaseKeeper, is_dead, this_process

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
    RowsDropped,
    StagingLost,
)


@dataclass(slots=True)
class Opened:
    """A home that is ours until `close`."""

    run: TakeOver
    checkpoint: Checkpoint
    lease: LeaseKeeper

    def close(self) -> None:
        """Connections and lease go, whatever else fails."""
        try:
            for sink in self.run.sinks.values():
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
    """Claim the next term and keep its lease, then do what a start does first."""
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
    lease, checkpoint = LeaseKeeper(term), Checkpoint(home)
    run = TakeOver(
        owner=Owner(pipeline=pipeline, lineage=deed.lineage, term=term.number, guarantee=guarantee),
        coordinator=Coordinator(
            sinks, is_final=lambda error: isinstance(error, FINAL), clock=time.monotonic, sleep=time.sleep
        ),
        checkpoint=checkpoint,
        ledger=Ledger(home.storage, terms.boundaries(home.storage), deed.lineage),
        decisions=Decisions(home.storage, deed.lineage, term.number),
        term=term,
        clock=time.monotonic,
        now=now,
        report=report,
    )
    opened = Opened(run, checkpoint, lease)
    try:
        run.recover(trust_ledger=trust_ledger)
    except BaseException:
        opened.close()
        raise
    return opened


def now() -> str:
    """The time of day, for people who read the ledger."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
