"""What a start does before its first epoch: fence, find out what is decided, finish it, abort the rest.

Pure but for what is passed in: the sinks, the home's storage, and the clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from onceward import crashpoints
from onceward.epoch import plans, sink_changes, skips
from onceward.epoch.checkpoint import Checkpoint, kafka_positions
from onceward.epoch.contract import (
    DecidingSink,
    EpochContext,
    Guarantee,
    LastCommit,
    Owner,
    TwoPhaseCommitSink,
)
from onceward.epoch.coordinator import Attempted, Coordinator, Voted
from onceward.epoch.decisions import Decisions
from onceward.epoch.entries import EntryMaker
from onceward.epoch.home import Home
from onceward.epoch.ledger import DONE, PREPARED, Entry, Ledger
from onceward.epoch.patience import patiently
from onceward.epoch.recovery import (
    NEVER,
    Consent,
    Known,
    Recovered,
    by_ledger,
    by_marker,
    check_marker,
    require_ours,
)
from onceward.epoch.skips import Skipped
from onceward.epoch.term import Term, fenced_first, starts
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
    markers: Mapping[str, LastCommit | None]  # what each sink that remembers holds now
    resolved: tuple[str, ...]  # what was in doubt, and what became of it
    skips: tuple[Skipped, ...] = ()  # records that are passed over

    @property
    def sinks(self) -> Mapping[str, TwoPhaseCommitSink]:
        """By name, the decider last."""
        return self.coordinator.sinks


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
    first_term: int = 0  # of this lineage

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
        if exactly_once:
            recovered, markers = self._find_out(checkpoint)
            resolved = self._put_right(checkpoint, recovered)
            markers.update(self._resolve(recovered, resolved))
            self.term.require_current()  # paused on the way, and overtaken: what it would record counts no more
            self._record_last(checkpoint, recovered)
            for line in sink_changes.in_words(self.ledger.last(), self.ledger, self.coordinator.sinks):
                self.report(line)
            markers.update(self._mark_anew(checkpoint, recovered))
            self.term.begin(recovered.committed, resolved, marked=self._is_marked(markers))
        elif self.owner.guarantee is Guarantee.AT_MOST_ONCE:
            self._give_up_what_was_begun()
        crashpoints.reach("recovered")
        return TakenOver(
            owner=self.owner,
            coordinator=self.coordinator,
            checkpoint=checkpoint,
            ledger=self.ledger,
            decisions=self.decisions,
            term=self.term,
            recovered=recovered,
            markers=markers,
            resolved=tuple(resolved),
            skips=skips.read(self.home.storage),
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
            require_ours(self._known(None, {}, None), decider, last)

    def _find_out(self, checkpoint: Checkpoint) -> tuple[Recovered, dict[str, LastCommit | None]]:
        # In this order: an older driver that wakes may finish an epoch meanwhile, and what is read later may only
        # be ahead. A sink's marker follows the decision, and the ledger's entry follows the marker.
        recorded = self.ledger.last()
        if recorded is not None:
            self.ledger.sync(recorded)
        asked = {name: sink for name, sink in self.coordinator.sinks.items() if sink.remembers}
        markers = {name: self._ask(name, partial(self._last_commit, sink)) for name, sink in asked.items()}
        known = self._known(recorded, markers, checkpoint)
        return self._conclude(known, markers), markers

    def _last_commit(self, sink: TwoPhaseCommitSink) -> LastCommit | None:
        try:
            return sink.last_commit()
        except MarkerMissing:  # others' offsets in its place
            if self.consent.trust_ledger:
                return None
            raise

    def _known(
        self, recorded: Entry | None, markers: Mapping[str, LastCommit | None], checkpoint: Checkpoint | None
    ) -> Known:
        decider, lineage = self.coordinator.decider, self.owner.lineage
        others = [it.epoch for name, it in markers.items() if it and name != decider and it.lineage == lineage]
        finished = checkpoint.last_finished() if checkpoint is not None else None
        return Known(
            pipeline=self.owner.pipeline,
            lineage=self.owner.lineage,
            term=self.owner.term,
            recorded=recorded,
            pending=checkpoint.planned() if checkpoint is not None else None,
            marked=self._was_marked(recorded),
            seen=max((*others, finished if finished is not None else NEVER), default=NEVER),
            consent=self.consent,
            inherits=self.owner.inherits,
        )

    def _was_marked(self, recorded: Entry | None) -> bool:
        # Epochs that the ledger decided went without the deciding sink: what it had before need not be there now.
        since = recorded.term + 1 if recorded is not None and sink_changes.without_decider(recorded) else 0
        said = {it.marked for it in starts(self.term.storage) if it.term >= max(self.first_term, since)}
        if True in said:
            return True
        # An older release did not say; an epoch that it has voted for or recorded may have been committed.
        return None in said and (recorded is not None or self.ledger.last(PREPARED) is not None)

    def _is_marked(self, markers: Mapping[str, LastCommit | None]) -> bool:
        """Whether the deciding sink has a marker of this lineage: after a reset it holds the old one's until then."""
        last = markers[self.coordinator.decider] if self.coordinator.decider is not None else None
        return last is not None and last.lineage == self.owner.lineage

    def _conclude(self, known: Known, markers: Mapping[str, LastCommit | None]) -> Recovered:
        decider = self.coordinator.decider
        others = [name for name in self.coordinator.sinks if name != decider]
        self._require_same_decider(known)
        self.term.require_current()
        if decider is not None:
            recovered = by_marker(known, decider, markers[decider], self.ledger, others)
        else:
            recovered = by_ledger(known, self.decisions.last())
            while self.decisions.close(recovered.committed + 1) is not None:  # a driver that woke was quicker
                recovered = by_ledger(known, self.decisions.last())
        for name in others:
            if name in markers:
                check_marker(known, recovered, name, markers[name], self.ledger)
        return recovered

    def _require_same_decider(self, known: Known) -> None:
        """An epoch in doubt is settled by whoever was to decide it, before a pipeline gets or loses its Kafka sink."""
        decider = self.coordinator.decider
        waiting = self.decisions.last() if decider is not None else self.ledger.last(PREPARED)
        if waiting is not None and waiting.epoch > known.done and waiting.decider != decider:
            raise ConfigurationError(
                f"epoch {waiting.epoch} of {known.pipeline!r} is in doubt, and {waiting.decided_by} was to decide it; "
                "the pipeline's sinks have changed since. Start it once with its old sinks, or finish the epoch with "
                "`onceward resolve`."
            )

    def _put_right(self, checkpoint: Checkpoint, recovered: Recovered) -> list[str]:
        """Spark's logs say what ledger and marker say; what a power cut has torn is put back or planned anew."""
        told = checkpoint.clear_torn(recovered.committed)
        told += plans.put_right(checkpoint, self.ledger, recovered)
        checkpoint.require_intact(recovered.committed)
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
        entries = EntryMaker(self.owner, self.coordinator.sinks, decider, self.now)
        positions = checkpoint.positions(recovered.committed)
        context = EpochContext(epoch=recovered.committed, positions=positions.kafka)
        self.ledger.write(entries.entry(context, positions, Attempted(parts, 1), DONE))

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
            trust_ledger=self.consent.trust_ledger,
        )

    def _give_up_what_was_begun(self) -> None:
        """At-most-once: from now on no earlier driver can begin the epoch after the last one that was begun."""
        self.term.require_current()
        last = self.decisions.last()
        while (quicker := self.decisions.close(last.epoch + 1 if last is not None else 0)) is not None:
            last = quicker
