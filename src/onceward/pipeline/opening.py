"""Taking a home over for this process. A start does it before its query runs, `onceward resolve` and nothing more."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import AnalysisException

from onceward import errors
from onceward.epoch import term as terms
from onceward.epoch.contract import Guarantee, TwoPhaseCommitSink
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.home import Home
from onceward.epoch.patience import Patience, SinkOutage
from onceward.epoch.ports import Process
from onceward.epoch.recovery import Consent
from onceward.epoch.runner import Stopping
from onceward.epoch.starting import Begins, Opened, Start
from onceward.epoch.storage import LocalStorage
from onceward.epoch.term import Term
from onceward.holding import is_gone, this_process
from onceward.pipeline.explaining import line_of, own_failure
from onceward.pipeline.lease import LeaseKeeper
from onceward.pipeline.lost_input import is_lost_input
from onceward.sinks.kafka.transactional import TransactionalKafka

if TYPE_CHECKING:
    from onceward.pipeline.pipeline import Pipeline

FINAL: Final = (*errors.FINAL, AnalysisException)
ASK_S: Final = 0.1
STANDBY_POLL_S: Final = 0.5  # where each look goes over a network


def now() -> str:
    """The time of day, for people who read the ledger."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


THIS_PROCESS: Final = Process(
    clock=time.monotonic,
    sleep=time.sleep,
    now=now,
    fresh=lambda: uuid.uuid4().hex,
    holder=this_process,
    is_gone=is_gone,
    keep=LeaseKeeper,
)


def start_of(pipeline: "Pipeline", home: Home, **how: Any) -> Start:
    """By this process; `how` as `onceward.epoch.starting` has it."""
    return Start(
        home=home,
        pipeline=pipeline.name,
        guarantee=Guarantee(pipeline.guarantee),
        sinks=pipeline.sinks,
        process=THIS_PROCESS,
        **how,
    )


def take_over(
    start: Start,
    *,
    consent: Consent | None = None,
    begins: Begins | None = None,
    patience_s: float | None = None,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> Opened:
    """As `Start.take_over`, by this process.

    asked_to_stop: whether the waiting for sinks that are out of reach shall end. Without patience_s nothing is waited
    for.
    """
    stop = threading.Event()

    def coordinator(term: Term) -> Coordinator:
        waits = stoppable_patience(patience_s, asked_to_stop, stop, term) if patience_s is not None else None
        return _coordinator(start.sinks, stop, waits)

    return start.take_over(coordinator, stop, consent=consent, begins=begins)


def stand_by(home: Home, *, report: Callable[[str], None], asked_to_stop: Callable[[], bool]) -> None:
    """Wait until nobody drives the home, however long that is. Nothing is claimed: somebody else may be quicker."""
    watcher = terms.Watcher(home.storage, is_gone, time.monotonic)
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
    for name, sink in sinks.items():
        if patience is not None and isinstance(sink, TransactionalKafka):
            sink.wire.outage = SinkOutage(patience, name)
    return Coordinator(
        sinks,
        is_final=lambda error: isinstance(error, FINAL) or is_lost_input(error),
        own=own_failure,
        describe=line_of,
        clock=time.monotonic,
        sleep=stop.wait,  # a stop need not wait for a back-off
        patience=patience,
    )


def stoppable_patience(
    seconds: float,
    asked_to_stop: Callable[[], bool],
    stop: threading.Event | None = None,
    term: Term | None = None,
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
