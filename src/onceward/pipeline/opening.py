"""Taking a home over for this process. A start does it before its query runs, `onceward resolve` and nothing more."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from pyspark.errors import AnalysisException

from onceward import errors
from onceward.epoch import term as terms
from onceward.epoch.contract import Guarantee, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.decisions import Decisions
from onceward.epoch.home import Home
from onceward.epoch.ledger import Ledger
from onceward.epoch.recovery import Consent
from onceward.epoch.runner import Stopping
from onceward.epoch.takeover import TakenOver, TakeOver
from onceward.pipeline.lease import LeaseKeeper, is_dead, this_process
from onceward.pipeline.lost_input import is_lost_input

FINAL: Final = (*errors.FINAL, AnalysisException)


@dataclass(slots=True)
class Opened:
    """A home that is ours until `close`."""

    taken: TakenOver
    lease: LeaseKeeper
    stop: threading.Event  # set: finish the epoch that runs, and begin none

    def keep_on(self) -> None:
        """Between two tries of something: raise if this driver was overtaken, or asked to stop."""
        self.taken.term.require_current()
        if self.stop.is_set():
            raise Stopping("the pipeline was asked to stop")

    def close(self) -> None:
        """Connections and lease go, whatever else fails."""
        _let_go(self.taken.sinks, self.lease)


def take_over(
    home: Home,
    pipeline: str,
    guarantee: Guarantee,
    sinks: Mapping[str, TwoPhaseCommitSink],
    *,
    at_once: bool = False,
    consent: Consent | None = None,
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
    lease, stop = LeaseKeeper(term), threading.Event()
    start = TakeOver(
        home=home,
        owner=Owner(pipeline=pipeline, lineage=deed.lineage, term=term.number, guarantee=guarantee),
        coordinator=Coordinator(
            sinks,
            is_final=lambda error: isinstance(error, FINAL) or is_lost_input(error),
            clock=time.monotonic,
            sleep=stop.wait,  # a stop need not wait for a back-off
        ),
        ledger=Ledger(home.storage, terms.boundaries(home.storage), deed.lineage),
        decisions=Decisions(home.storage, deed.lineage, term.number),
        term=term,
        clock=time.monotonic,
        now=now,
        report=report,
        consent=consent or Consent(),
    )
    try:
        return Opened(start.recover(), lease, stop)
    except BaseException:
        _let_go(sinks, lease)
        raise


def _let_go(sinks: Mapping[str, TwoPhaseCommitSink], lease: LeaseKeeper) -> None:
    try:
        for sink in sinks.values():
            sink.close()
    finally:
        lease.release()


def now() -> str:
    """The time of day, for people who read the ledger."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
