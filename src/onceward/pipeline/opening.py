"""Taking a home over for this process. A start does it before its query runs, `onceward resolve` and nothing more."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from pyspark.errors import AnalysisException

from onceward import errors
from onceward.epoch import deeds
from onceward.epoch import term as terms
from onceward.epoch.contract import Guarantee, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed
from onceward.epoch.home import Home
from onceward.epoch.ledger import Ledger
from onceward.epoch.patience import Patience
from onceward.epoch.recovery import Consent
from onceward.epoch.runner import Stopping
from onceward.epoch.storage import LocalStorage
from onceward.epoch.takeover import TakenOver, TakeOver
from onceward.pipeline.explaining import line_of, own_failure
from onceward.pipeline.lease import LeaseKeeper, is_dead, this_process
from onceward.pipeline.lost_input import is_lost_input

Restore: TypeAlias = Callable[[terms.Term], Deed]
FINAL: Final = (*errors.FINAL, AnalysisException)
ASK_S: Final = 0.1
STANDBY_POLL_S: Final = 0.5  # where each look goes over a network


@dataclass(slots=True)
class Opened:
    """A home that is ours until `close`."""

    whole: Home
    home: Home  # the part of it that is this lineage's
    taken: TakenOver
    lease: LeaseKeeper
    stop: threading.Event  # set: finish the epoch that runs, and begin none

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
    restore: Restore | None = None,
    report: Callable[[str], None] = lambda _: None,
    patience_s: float | None = None,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Opened:
    """Claim the next term and keep its lease, then do what a start does first.

    `restore` begins another lineage in the home, once it is ours. `asked_to_stop`: whether the waiting for sinks that
    are out of reach shall end. Without `patience_s` nothing is waited for.
    """
    deed = home.deed() if restore is not None else home.open(pipeline, guarantee.value, uuid.uuid4().hex)
    term = _claim(home, deed, pipeline, guarantee, report, at_once=at_once)
    lease, stop = LeaseKeeper(term), threading.Event()
    try:
        deed = deeds.enter(home.storage, term.number)  # a predecessor may have begun another lineage since
        if restore is not None:
            deed = restore(term)
        if deed is None:
            raise errors.HomeMismatch(f"{home.location} has lost its file {deeds.FILE} while this start waited")
        patience = stoppable_patience(patience_s, asked_to_stop, stop, term) if patience_s is not None else None
        coordinator = _coordinator(sinks, stop, patience)
        start = _start(home, deed, term, guarantee, coordinator, consent or Consent(), report)
        return Opened(home, start.home, start.recover(), lease, stop)
    except BaseException:
        _let_go(sinks, lease)
        raise


def stand_by(home: Home, *, report: Callable[[str], None], asked_to_stop: Callable[[], bool]) -> None:
    """Wait until nobody drives the home, however long that is. Nothing is claimed: somebody else may be quicker."""
    watcher = terms.Watcher(home.storage, is_dead, time.monotonic)
    pause_s = terms.POLL_S if isinstance(home.storage, LocalStorage) else STANDBY_POLL_S
    told: terms.Holder | None = None
    while not watcher.vacant():
        if watcher.holder != told:
            told = watcher.holder
            report(f"standing by: the home is held by {told}")
        if asked_to_stop():
            raise Stopping("the standby was asked to stop")
        time.sleep(pause_s)
    if told is not None:
        report(f"{told} holds the home no more: taking over")


def _coordinator(
    sinks: Mapping[str, TwoPhaseCommitSink], stop: threading.Event, patience: Patience | None
) -> Coordinator:
    return Coordinator(
        sinks,
        is_final=lambda error: isinstance(error, FINAL) or is_lost_input(error),
        own=own_failure,
        describe=line_of,
        clock=time.monotonic,
        sleep=stop.wait,  # a stop need not wait for a back-off
        patience=patience,
    )


def begin_lineage(
    home: Home,
    pipeline: str,
    guarantee: Guarantee,
    sinks: Mapping[str, TwoPhaseCommitSink],
    begin: Restore,
    *,
    at_once: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> Deed:
    """Claim the next term, end the home's lineage and begin another; then let go of it. The next start runs it."""
    term = _claim(home, home.deed(), pipeline, guarantee, report, at_once=at_once)
    lease = LeaseKeeper(term)
    try:
        deeds.enter(home.storage, term.number)
        return begin(term)
    finally:
        _let_go(sinks, lease)


def _claim(
    home: Home,
    deed: Deed | None,
    pipeline: str,
    guarantee: Guarantee,
    report: Callable[[str], None],
    *,
    at_once: bool,
) -> terms.Term:
    if deed is not None:
        home.require_of(deed, pipeline, guarantee.value)
    return terms.acquire(
        home.storage,
        lambda number: this_process(pipeline, number),
        is_dead=is_dead,
        clock=time.monotonic,
        sleep=time.sleep,
        take_over=at_once,
        report=report,
    )


def _start(
    home: Home,
    deed: Deed,
    term: terms.Term,
    guarantee: Guarantee,
    coordinator: Coordinator,
    consent: Consent,
    report: Callable[[str], None],
) -> TakeOver:
    room = home.of_lineage(deed)
    return TakeOver(
        home=room,
        owner=Owner(
            pipeline=deed.pipeline, lineage=deed.lineage, term=term.number, guarantee=guarantee, inherits=deed.inherits
        ),
        coordinator=coordinator,
        ledger=Ledger(room.storage, terms.boundaries(home.storage), deed.lineage),
        decisions=Decisions(room.storage, deed.lineage, term.number),
        term=term,
        clock=time.monotonic,
        now=now,
        report=report,
        consent=consent,
        first_term=deed.origin.first_term if deed.origin is not None else 0,
    )


def stoppable_patience(
    seconds: float,
    asked_to_stop: Callable[[], bool],
    stop: threading.Event | None = None,
    term: terms.Term | None = None,
) -> Patience:
    """A stop is answered at once, and so is a newer driver."""
    stop = stop or threading.Event()

    def sleep(pause_s: float) -> None:
        until = time.monotonic() + pause_s
        while not asked_to_stop() and not stop.wait(min(ASK_S, max(0.0, until - time.monotonic()))):
            if time.monotonic() >= until:
                return

    def keep_on() -> None:
        if term is not None:
            term.require_current()
        if stop.is_set() or asked_to_stop():
            raise Stopping("the pipeline was asked to stop while it waited")

    return Patience(seconds, clock=time.monotonic, sleep=sleep, keep_on=keep_on)


def _let_go(sinks: Mapping[str, TwoPhaseCommitSink], lease: LeaseKeeper) -> None:
    try:
        for sink in sinks.values():
            sink.close()
    finally:
        lease.release()


def now() -> str:
    """The time of day, for people who read the ledger."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
