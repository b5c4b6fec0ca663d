"""A start: judge, claim the term, begin another lineage if one is asked for, recover, judge again. Then it may run.

Whatever is judged before a wait is judged once more after it: the driver that was waited for may have ended the
pipeline, begun another lineage, or run another query. Pure but for what is passed in, so that the simulation starts by
the same code.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from onceward.epoch import deeds, inspection, query_shape
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import NOTES, Checkpoint
from onceward.epoch.contract import Guarantee, Owner, TwoPhaseCommitSink, decider_of
from onceward.epoch.coordinator import Coordinator
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed
from onceward.epoch.expected import named
from onceward.epoch.home import Home
from onceward.epoch.ledger import Ledger
from onceward.epoch.ports import Lease, Process, Stop
from onceward.epoch.query_shape import QueryShape, differences
from onceward.epoch.recovery import Consent
from onceward.epoch.takeover import TakenOver, TakeOver
from onceward.epoch.term import Term
from onceward.errors import CheckpointDropped, ConfigurationError, HomeMismatch, LedgerCorrupt, QueryChanged

Sinks = Mapping[str, TwoPhaseCommitSink]
Fits = Callable[[Home], None]  # raises if the pipeline does not fit what the home holds now
Begins = Callable[[Term], Deed]  # another lineage, in a home that is ours


@dataclass(slots=True)
class Opened:
    """A home that is ours until `close`."""

    whole: Home
    home: Home  # the part of it that is this lineage's
    taken: TakenOver
    lease: Lease
    stop: Stop  # set: finish the epoch that runs, and begin none

    def close(self) -> None:
        """Connections and lease go, whatever else fails."""
        _let_go(self.taken.sinks, self.lease)


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A pipeline that is about to take its home over.

    `shape`: of the query that is to run; None: none is. `at_once`: a living driver is fenced and not waited for.
    `any_topics`: its sources may leave topics out, as a person has said.
    """

    home: Home
    pipeline: str
    guarantee: Guarantee
    sinks: Sinks
    process: Process
    shape: QueryShape | None = None
    fits: Fits = lambda _: None
    at_once: bool = False
    any_topics: bool = False
    report: Callable[[str], None] = lambda _: None

    def take_over(
        self,
        coordinator: Callable[[Term], Coordinator],
        stop: Stop,
        *,
        consent: Consent | None = None,
        begins: Begins | None = None,
    ) -> Opened:
        """The home is ours, what was in doubt is resolved, and the next epoch may begin.

        begins: another lineage, in place of the one that is there.
        """
        self._judge(begins)
        if begins is None:
            self.home.open(self.pipeline, self.guarantee.value, self.process.fresh())
        term, lease = self._claim()
        try:
            deed = self._entered(term, begins)
            if begins is not None:
                deed = begins(term)
            if deed is None:
                raise HomeMismatch(f"{self.home.location} has lost its file {deeds.FILE} while this start waited")
            room = self.home.of_lineage(deed)
            taken = self._recovered(room, deed, term, coordinator(term), consent)
            self._judge(begins)  # until the sinks were fenced and the checkpoint was ours, an older driver went on
            return Opened(self.home, room, taken, lease, stop)
        except BaseException:
            _let_go(self.sinks, lease)
            raise

    def begin(self, begins: Begins) -> Deed:
        """End the home's lineage and begin another, then let go of it: the next start runs it."""
        self._judge(begins)
        term, lease = self._claim()
        try:
            self._entered(term, begins)
            self._judge(begins)
            return begins(term)
        finally:
            _let_go(self.sinks, lease)

    def _claim(self) -> tuple[Term, Lease]:
        process = self.process
        term = terms.acquire(
            self.home.storage,
            lambda number: process.holder(self.pipeline, number),
            is_gone=process.is_gone,
            clock=process.clock,
            sleep=process.sleep,
            take_over=self.at_once,
            report=self.report,
            home=f"home {self.home.location} of pipeline {self.pipeline!r}",
        )
        return term, process.keep(term)

    def _entered(self, term: Term, begins: Begins | None) -> Deed | None:
        """The lineage that is in force now, for good: a predecessor may have begun another one, or ended it."""
        deed = deeds.enter(self.home.storage, term.number)
        self._require_ours(deed)
        if begins is None:
            _require_not_ended(self.home)
        self._require_nothing_open()
        return deed

    def _judge(self, begins: Begins | None) -> None:
        """Asked before the lease, so that nobody is disturbed for nothing, and again when nobody else can change it."""
        deed = self.home.deed()
        if deed is None:
            self.home.require_no_checkpoint()
        self._require_ours(deed)
        if begins is None:
            _require_not_ended(self.home)
        self.fits(self.home)
        if begins is None and deed is not None and self.shape is not None:
            _require_same_query(self.home, deed, self.shape, any_topics=self.any_topics)

    def _require_nothing_open(self) -> None:
        """A deciding sink that is no longer here can be neither asked nor fenced."""
        last = terms.last_start(self.home.storage)
        if last is None or last.decider is None or decider_of(self.sinks) is not None:
            return
        if not terms.read_beat(self.home.storage, last.term).settled:
            raise ConfigurationError(
                f"pipeline {self.pipeline!r} no longer has its sink {last.decider!r}, which decided its epochs, and "
                f"the driver of term {last.term} did not end in order: it may have decided one, or still do so. Run "
                "`onceward resolve`, or start it once with its old sinks and stop it; then start it without that sink."
            )

    def _require_ours(self, deed: Deed | None) -> None:
        if deed is not None:
            self.home.require_of(deed, self.pipeline, self.guarantee.value)

    def _recovered(
        self, room: Home, deed: Deed, term: Term, coordinator: Coordinator, consent: Consent | None
    ) -> TakenOver:
        return TakeOver(
            home=room,
            deed=deed,
            owner=Owner(
                pipeline=deed.pipeline,
                lineage=deed.lineage,
                term=term.number,
                guarantee=self.guarantee,
                before=named(deed.origin.held, coordinator.decider) if deed.origin is not None else {},
            ),
            coordinator=coordinator,
            ledger=Ledger(room.storage, terms.boundaries(self.home.storage), deed.lineage),
            decisions=Decisions(room.storage, deed.lineage, term.number),
            term=term,
            clock=self.process.clock,
            now=self.process.now,
            report=self.report,
            consent=consent or Consent(),
        ).recover()


def _require_not_ended(home: Home) -> None:
    ended = deeds.ended(home.storage)
    if ended is not None:
        raise CheckpointDropped(
            f"the pipeline of {home.location} {ended}. Its positions and its state are gone, so it cannot go on: "
            "restore a savepoint (`onceward run FILE.py --from SAVEPOINT`), or begin anew: `onceward reset HOME --file "
            "FILE.py` says what that means for each sink. To keep checkpoints: retain='always'."
        )


def _require_same_query(home: Home, deed: Deed, now: QueryShape, *, any_topics: bool) -> None:
    """The state of one query is not that of another; before anything is committed there is none."""
    room = home.of_lineage(deed)
    committed = inspection.ledger_of(home, deed).last() is not None
    if not committed and Checkpoint.newest(room).last_finished() is None:
        return
    was = query_shape.read(Checkpoint.noted(room, query_shape.FILE))
    if was is None:
        _require_not_ended(home)  # since a moment ago
        if home.deed() != deed:
            return  # another lineage has begun, and is judged once the home is ours
        raise LedgerCorrupt(
            f"{room.location} has lost {NOTES}/{query_shape.FILE} in its checkpoint: whether the state is that of this "
            "query cannot be told. Restore the checkpoint from a backup of the home."
        )
    if any_topics and len(was.sources) == len(now.sources):
        was = msgspec.structs.replace(was, sources=now.sources)
    if found := differences(was, now):
        lines = "".join(f"\n  - {line}" for line in found)
        raise QueryChanged(
            f"{home.location} holds the state of another query, which this one would misread.{lines}\nNothing was "
            "touched. Start it with the query as it was; or start the changed query under a new name and a new home; "
            f"or begin anew: onceward reset {home.location} --file FILE.py says what that means for each sink."
        )


def _let_go(sinks: Sinks, lease: Lease) -> None:
    try:
        for sink in sinks.values():
            sink.close()
    finally:
        lease.release()
