"""What a start does before its first epoch: fence, find out what is decided, finish it, abort the rest.

Pure but for what is passed in: the sinks, the home's storage, and the clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from onceward import crashpoints
from onceward.epoch import plans, skips
from onceward.epoch import term as terms
from onceward.epoch.checkpoint import Checkpoint, kafka_positions
from onceward.epoch.contract import (
    DecidingSink,
    EpochContext,
    Guarantee,
    LastCommit,
    Owner,
    TwoPhaseCommitSink,
)
from onceward.epoch.coordinator import Coordinator, Voted
from onceward.epoch.decisions import Decisions
from onceward.epoch.deeds import Deed
from onceward.epoch.entries import EntryMaker
from onceward.epoch.expected import NEVER, Expected, changes, named, recorded, to_record
from onceward.epoch.home import Home
from onceward.epoch.ledger import PREPARED, Entry, Ledger
from onceward.epoch.patience import patiently
from onceward.epoch.places import SourceRecord
from onceward.epoch.recovery import (
    Consent,
    Known,
    Recovered,
    by_ledger,
    by_marker,
    check_marker,
    overruled,
    require_ours,
)
from onceward.epoch.skips import Skipped
from onceward.epoch.term import Term, fenced_first
from onceward.epoch.unfinished import roll_forward
from onceward.errors import ConfigurationError, MarkerMissing

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """A home that is ours: who drives it, what it holds, and what the start has found."""

    owner: Owner
    coordinator: Coordinator
    checkpoint: Checkpoint
    ledger: Ledger
    decisions: Decisions
    term: Term
    recovered: Recovered
    expected: Expected  # what each sink holds, and must go on holding
    last: LastCommit | None  # the deciding sink's
    resolved: tuple[str, ...]  # what was in doubt, and what became of it
    skips: tuple[Skipped, ...] = ()  # records that are passed over

    @property
    def sinks(self) -> Mapping[str, TwoPhaseCommitSink]:
        """By name, the decider last."""
        return self.coordinator.sinks

    def require_ahead(self, place: SourceRecord) -> None:
        """No epoch has committed the record, or begun to write it once: ledger, Kafka, and the engine's own log say."""
        finished, known = self.checkpoint.last_finished(), (self.ledger.last(), self.decisions.last())
        begun = [entry.epoch for entry in known if entry is not None]
        committed = max(self.recovered.committed, finished if finished is not None else NEVER, *begun)
        skips.require_ahead(place, committed, self.checkpoint.begins_of_sources(committed + 1))


@dataclass(slots=True, kw_only=True)
class TakeOver:
    """A home whose term is ours, on its way to being driven."""

    home: Home
    owner: Owner
    coordinator: Coordinator
    ledger: Ledger
    decisions: Decisions
    term: Term
    clock: Callable[[], float]
    now: Callable[[], str]  # the time of day, for people
    report: Callable[[str], None] = lambda _: None
    consent: Consent = field(default_factory=Consent)
    deed: Deed

    def recover(self) -> TakenOver:
        """Of a start that was overtaken on its way the rest is a consequence: its successor moved on."""
        with fenced_first(self.term):
            return self._recover()

    def _recover(self) -> TakenOver:
        """Fence first, then read: the other way round, an older driver could commit in between."""
        exactly_once = self.owner.guarantee is Guarantee.EXACTLY_ONCE
        if exactly_once:
            self._require_welcome()
        checkpoint = self._adopt()
        for name, sink in reversed(self.coordinator.sinks.items()):
            self._ask(name, partial(sink.open, replace(self.owner, sink=name)))
        recovered, markers, resolved = Recovered(NEVER), dict[str, LastCommit | None](), list[str]()
        expected = Expected(self.owner.pipeline, self.owner.lineage, {}, self.owner.before)
        if exactly_once:
            recovered, markers = self._find_out(checkpoint, expected)
            resolved = self._put_right(checkpoint, recovered)
            markers.update(self._resolve(recovered, resolved))
            self.term.require_current()  # paused on the way, and overtaken: what it would record counts no more
            self._record_last(checkpoint, recovered)
            sinks, last, origin = self.coordinator.sinks, self.ledger.last(), self.deed.origin
            for line in changes(expected.held, self.owner.lineage, origin, last, sinks):
                self.report(line)
            markers.update(self._mark_anew(checkpoint, recovered))
            expected.believe(markers)
            decider = self.coordinator.decider
            held = to_record(expected.held, decider)
            self.term.begin(recovered.committed, resolved, held, self.coordinator.sinks, decider)
        else:
            resolved = self._put_right(checkpoint, self._begun())
        self.term.settled = True
        crashpoints.reach("recovered")
        return TakenOver(
            owner=self.owner,
            coordinator=self.coordinator,
            checkpoint=checkpoint,
            ledger=self.ledger,
            decisions=self.decisions,
            term=self.term,
            recovered=recovered,
            expected=expected,
            last=markers.get(self.coordinator.decider) if self.coordinator.decider is not None else None,
            resolved=tuple(resolved),
            skips=skips.read(checkpoint.notes.read(skips.FILE)),
        )

    def _adopt(self) -> Checkpoint:
        return Checkpoint.adopt(self.home, self.term.number)

    def _require_welcome(self) -> None:
        """A start that will be refused anyway (a new or copied home) must not fence the healthy pipeline first."""
        decider = self.coordinator.decider
        if decider is None:
            return
        sink = self.coordinator.sinks[decider]
        assert isinstance(sink, DecidingSink)
        try:
            last = self._ask(decider, lambda: sink.peek(self.owner.pipeline))
        except MarkerMissing:
            return  # told below, where --trust-ledger counts
        if last is not None:
            require_ours(self.owner, decider, last)

    def _find_out(self, checkpoint: Checkpoint, expected: Expected) -> tuple[Recovered, dict[str, LastCommit | None]]:
        # In this order: an older driver that wakes may finish an epoch meanwhile, and what is read later may only
        # be ahead. A sink's marker follows the decision, and the ledger's entry follows the marker.
        done = self.ledger.last()
        if done is not None:
            self.ledger.sync(done)
        expected.held = named(recorded(self.term.storage, self.deed, done), self.coordinator.decider)
        asked = {name: sink for name, sink in self.coordinator.sinks.items() if sink.remembers}
        markers = {name: self._ask(name, partial(self._last_commit, name, sink)) for name, sink in asked.items()}
        known = self._known(done, markers, checkpoint, expected)
        recovered = self._conclude(known, markers)
        if lines := overruled(known, recovered, self.coordinator.decider, markers):
            self.consent.confirm(lines)
            for line in lines:
                self.report(line)
        return recovered, markers

    def _last_commit(self, name: str, sink: TwoPhaseCommitSink) -> LastCommit | None:
        try:
            return sink.last_commit()
        except MarkerMissing:  # others' offsets in its place
            if name in self.consent.trust_ledger:
                return None
            raise

    def _known(
        self, done: Entry | None, markers: Mapping[str, LastCommit | None], checkpoint: Checkpoint, expected: Expected
    ) -> Known:
        decider, lineage = self.coordinator.decider, self.owner.lineage
        others = [it.epoch for name, it in markers.items() if it and name != decider and it.lineage == lineage]
        finished = checkpoint.last_finished()
        return Known(
            owner=self.owner,
            expected=expected,
            recorded=done,
            pending=checkpoint.planned(),
            seen=max((*others, finished if finished is not None else NEVER), default=NEVER),
            consent=self.consent,
        )

    def _conclude(self, known: Known, markers: Mapping[str, LastCommit | None]) -> Recovered:
        decider = self.coordinator.decider
        others = [name for name in self.coordinator.sinks if name != decider]
        last = terms.last_start(self.term.storage)
        if decider is not None and last is not None and last.decider is None:
            self.decisions.close(known.done + 1)  # until now the ledger decided, and a driver may be paused before that
        self._require_same_decider(known)
        self.term.require_current()
        if decider is not None:
            recovered = by_marker(known, decider, markers[decider], self.ledger, self._voters(markers[decider], others))
        else:
            recovered = by_ledger(known, self.decisions.last())
            while self.decisions.close(recovered.committed + 1) is not None:  # a driver that woke was quicker
                recovered = by_ledger(known, self.decisions.last())
        for name in others:
            if name in markers:
                check_marker(known, recovered, name, markers[name])
        return recovered

    def _voters(self, last: LastCommit | None, now: list[str]) -> list[str]:
        """Which other sinks have voted for what the deciding one holds: sinks come and go."""
        found = [it for it in terms.starts(self.term.storage) if last is not None and it.term == last.term]
        return [name for name in found[0].sinks if name != found[0].decider] if found else now

    def _require_same_decider(self, known: Known) -> None:
        """An epoch that the ledger has decided is finished before a pipeline gets a Kafka sink, which would decide."""
        waiting = self.decisions.last() if self.coordinator.decider is not None else None
        if waiting is not None and waiting.epoch > known.done:
            raise ConfigurationError(
                f"epoch {waiting.epoch} of {self.owner.pipeline!r} was decided by the ledger and is not finished, and "
                "the pipeline has a Kafka sink since, which is to decide. Start it once with its old sinks, or finish "
                "the epoch with `onceward resolve`."
            )

    def _put_right(self, checkpoint: Checkpoint, recovered: Recovered) -> list[str]:
        """Spark's logs say what ledger and marker say; what a power cut has torn is put back or planned anew."""
        told = checkpoint.clear_torn(recovered.committed)
        told += plans.put_right(checkpoint, self.ledger, recovered)
        if self.owner.guarantee is Guarantee.EXACTLY_ONCE:
            checkpoint.require_intact(recovered.committed)
        elif (begun := recovered.unfinished) is not None and checkpoint.is_next(begun.epoch):
            checkpoint.restore(begun.epoch, begun.plan)  # by a driver that was overtaken, in a folder of its own
        planned = checkpoint.planned()
        if self.consent.replan and planned is not None and planned > recovered.committed:
            checkpoint.discard(planned)
            told.append(f"epoch {planned}, which nobody has committed, is planned anew, as asked")
        for line in told:
            self.report(line)
        return told

    def _resolve(self, recovered: Recovered, resolved: list[str]) -> dict[str, LastCommit | None]:
        """Roll forward what was decided; abort what was not. What sinks hold afterwards that they did not before."""
        entry, following = recovered.unfinished, recovered.committed + 1
        moved: dict[str, LastCommit | None] = {}
        before = len(resolved)
        if entry is not None:
            self.report(f"epoch {entry.epoch} is decided and may not be visible everywhere: finishing it")
            crashpoints.reach("resolving", entry.epoch)
            resolved.append(self._roll_forward(entry))
            now = LastCommit(lineage=self.owner.lineage, epoch=entry.epoch, term=self.owner.term)
            sinks = self.coordinator.sinks
            moved = {name: now for name in entry.sinks if name != entry.decider and sinks[name].remembers}
        voted = self.ledger.read(following)
        if voted is not None and voted.phase == PREPARED:
            resolved.append(f"epoch {following} was voted for in term {voted.term} and not decided: aborted, redone")
        self._ask(None, lambda: self.coordinator.abort(EpochContext(epoch=following, attempt=0)))
        for line in resolved[before:]:
            self.report(line)
        return moved

    def _record_last(self, checkpoint: Checkpoint, recovered: Recovered) -> None:
        """The last epoch may be committed and have no entry yet, where nobody voted apart from Kafka.

        A driver may die after Spark's commit log and before its own entry: the marker has its facts. Of an epoch that a
        person vouches for only its positions are known.
        """
        last, decider = recovered.last, self.coordinator.decider
        if recovered.committed == NEVER:
            return
        if (found := self.ledger.read(recovered.committed)) is not None:
            self.ledger.sync(found)
            return
        parts: dict[str, Voted] = {}
        if last is not None and last.outcome is not None and decider is not None:
            parts = {decider: Voted(last.outcome)}
        elif not recovered.on_trust:
            return  # a replay, if there is one, says that the entry is missing
        entries, epoch = EntryMaker(self.owner, self.coordinator.sinks, decider, self.now), recovered.committed
        entries.made_up_for(self.ledger, checkpoint, epoch, checkpoint.positions(epoch), parts)

    def _mark_anew(self, checkpoint: Checkpoint, recovered: Recovered) -> dict[str, LastCommit | None]:
        """A marker that was lost, or that a Kafka sink which is new never had: from here on it is there again."""
        decider = self.coordinator.decider
        if decider is None or recovered.last is not None or recovered.committed == NEVER:
            return {}
        sink, entry = self.coordinator.sinks[decider], self.ledger.read(recovered.committed)
        assert isinstance(sink, DecidingSink)
        # What the ledger says was compared and has a checksum; the engine's log may have been altered since.
        known = kafka_positions(entry.positions) if entry is not None else {}
        last = LastCommit(
            lineage=self.owner.lineage,
            epoch=recovered.committed,
            term=entry.term if entry is not None else self.owner.term,
            positions=known or checkpoint.positions(recovered.committed).kafka,
        )
        self._ask(decider, lambda: sink.write_marker(last))
        return {decider: last}

    def _ask(self, sink: str | None, question: Callable[[], T]) -> T:
        """A sink that is out of reach is waited for: each of these questions may be repeated."""
        return patiently(self.coordinator.patience, sink, question)

    def _roll_forward(self, entry: Entry) -> str:
        return roll_forward(
            entry,
            self.coordinator,
            self.ledger,
            self.term,
            clock=self.clock,
            now=self.now,
            trusted=self.consent.trust_ledger,
        )

    def _begun(self) -> Recovered:
        """Weaker guarantees: the newest epoch on record. Under at-most-once no earlier driver begins another one."""
        done, begun = self.ledger.last(), self.decisions.last()
        if self.owner.guarantee is Guarantee.AT_MOST_ONCE:
            self.term.require_current()
            while (quicker := self.decisions.close(begun.epoch + 1 if begun is not None else 0)) is not None:
                begun = quicker
        if begun is not None and (done is None or begun.epoch > done.epoch):
            return Recovered(begun.epoch, unfinished=begun)
        return Recovered(done.epoch if done is not None else NEVER)
