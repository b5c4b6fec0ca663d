"""What a start does before its first epoch: fence, find out what is decided, finish it, abort the rest.

Pure but for what is passed in: the sinks, the storage below ledger, decisions and term, and the clock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

import msgspec

from onceward import crashpoints
from onceward.epoch.contract import EpochContext, Guarantee, LastCommit, Owner, TwoPhaseCommitSink
from onceward.epoch.coordinator import Coordinator, Voted
from onceward.epoch.decisions import Decisions
from onceward.epoch.ledger import DONE, LEDGER, PREPARED, Entry, Ledger, SinkEntry
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.recovery import NEVER, Known, Recovered, by_ledger, by_marker, check_marker
from onceward.epoch.term import Term
from onceward.errors import ConfigurationError, OncewardError

PATIENCE_S: Final = 60.0  # how long a start repeats a decided commit before it says so; the next start goes on


class Positions(Protocol):
    """What a start asks of the engine's own checkpoint."""

    def planned(self) -> int | None:
        """The newest epoch that the engine has planned."""

    def require_intact(self, committed: int) -> None:
        """Raise if the checkpoint has lost what is out."""

    def texts(self, epoch: int) -> list[str]:
        """Where each source ends in an epoch, as the engine wrote it."""

    def kafka_positions(self, texts: list[str]) -> Mapping[TopicPartition, int]:
        """The Kafka ones among positions that the ledger has kept."""


@dataclass(slots=True)
class TakeOver:
    """A home whose term is ours, on its way to being driven."""

    owner: Owner
    coordinator: Coordinator
    checkpoint: Positions
    ledger: Ledger
    decisions: Decisions
    term: Term
    clock: Callable[[], float]
    now: Callable[[], str]  # the time of day, for people
    report: Callable[[str], None] = lambda _: None
    recovered: Recovered = field(default_factory=lambda: Recovered(NEVER))
    resolved: list[str] = field(default_factory=list)

    @property
    def sinks(self) -> dict[str, TwoPhaseCommitSink]:
        """By name, the decider last."""
        return self.coordinator.sinks

    def recover(self, *, trust_ledger: bool = False) -> None:
        """Fence first, then read: the other way round, an older driver could commit in between."""
        for name, sink in reversed(self.sinks.items()):
            sink.open(replace(self.owner, sink=name))
        if self.owner.guarantee is Guarantee.EXACTLY_ONCE:
            # In this order: an older driver that wakes may finish an epoch meanwhile, and what is read later may only
            # be ahead. A sink's marker follows the decision, and the ledger's entry follows the marker.
            recorded = self.ledger.last()
            if recorded is not None:
                self.ledger.sync(recorded)
            lasts = {name: sink.last_commit() for name, sink in self.sinks.items() if sink.remembers}
            self.recovered = self._conclude(recorded, lasts, trust_ledger=trust_ledger)
            self.checkpoint.require_intact(self.recovered.committed)
            self._resolve()
            self.term.require_current()  # paused on the way, and overtaken: what it would record counts no more
            self._record_marker()
            self.term.begin(self.recovered.committed, self.resolved)
        crashpoints.reach("recovered")

    def _conclude(
        self, recorded: Entry | None, lasts: Mapping[str, LastCommit | None], *, trust_ledger: bool
    ) -> Recovered:
        decider = self.coordinator.decider
        known = Known(
            pipeline=self.owner.pipeline,
            lineage=self.owner.lineage,
            term=self.owner.term,
            recorded=recorded,
            pending=self.checkpoint.planned(),
            trust_ledger=trust_ledger,
        )
        others = [name for name in self.sinks if name != decider]
        self._require_same_decider(known)
        self.term.require_current()
        if decider is not None:
            recovered = by_marker(known, decider, lasts[decider], self.ledger, others)
        else:
            recovered = by_ledger(known, self.decisions.last())
            while self.decisions.close(recovered.committed + 1) is not None:  # a driver that woke was quicker
                recovered = by_ledger(known, self.decisions.last())
        for name in others:
            if name in lasts:
                check_marker(known, recovered, name, lasts[name])
        return recovered

    def _require_same_decider(self, known: Known) -> None:
        """An epoch in doubt is settled by whoever was to decide it, before a pipeline gets or loses its Kafka sink."""
        done = known.recorded.epoch if known.recorded is not None else NEVER
        voted, decided, decider = self.ledger.last(PREPARED), self.decisions.last(), self.coordinator.decider
        waiting = decided if decider is not None else voted
        if waiting is not None and waiting.epoch > done and waiting.decider != (decider or LEDGER):
            raise ConfigurationError(
                f"epoch {waiting.epoch} of {known.pipeline!r} is in doubt, and {waiting.decider} was to decide it; the "
                "pipeline's sinks have changed since. Start it once with its old sinks, or finish the epoch with "
                "`onceward resolve`."
            )

    def _resolve(self) -> None:
        """Roll forward what was decided; abort what was not."""
        entry, following = self.recovered.unfinished, self.recovered.committed + 1
        if entry is not None:
            self.report(f"epoch {entry.epoch} is decided and may not be visible everywhere: finishing it")
            crashpoints.reach("resolving", entry.epoch)
            self._roll_forward(entry)
        voted = self.ledger.read(following)
        if voted is not None and voted.phase == PREPARED:
            self.resolved.append(
                f"epoch {following} was voted for in term {voted.term} and not decided: aborted, redone"
            )
        self.coordinator.abort(EpochContext(epoch=following, attempt=0))
        for line in self.resolved:
            self.report(line)

    def _record_marker(self) -> None:
        """Kafka alone: a driver may die after Spark's commit log and before its own entry; the marker has its facts."""
        last, decider = self.recovered.last, self.coordinator.decider
        if last is None or last.outcome is None or decider is None or len(self.sinks) > 1:
            return
        texts = self.checkpoint.texts(last.epoch)
        ends = self.checkpoint.kafka_positions(texts)
        if any(ends.get(place, offset) != offset for place, offset in last.positions.items()):
            return  # the offset log has changed under a committed epoch: a replay says so
        if (found := self.ledger.read(last.epoch)) is not None:
            self.ledger.sync(found)
        else:
            self.ledger.write(
                Entry(
                    pipeline=self.owner.pipeline,
                    lineage=self.owner.lineage,
                    term=self.owner.term,
                    epoch=last.epoch,
                    phase=DONE,
                    positions=texts,
                    decider=decider,
                    sinks={decider: SinkEntry.of(last.outcome)},
                    rows=last.outcome.rows,
                    finished_at=self.now(),
                )
            )

    def _roll_forward(self, entry: Entry) -> None:
        parts = {
            name: Voted(part.outcome, part.committable, dict(part.milliseconds))
            for name, part in entry.sinks.items()
            if name != entry.decider
        }
        missing = sorted(set(parts) - set(self.sinks))
        if missing:
            raise ConfigurationError(
                f"epoch {entry.epoch} is decided and has to be committed in sink {', '.join(map(repr, missing))}, "
                "which the pipeline no longer has. Start it once with its old sinks, or finish it with "
                "`onceward resolve`."
            )
        deadline = self.clock() + PATIENCE_S

        def keep_on() -> None:
            self.term.require_current()
            if self.clock() > deadline:
                raise OncewardError(f"tried for {PATIENCE_S:.0f} s")

        self.coordinator.keep_on = keep_on
        positions = self.checkpoint.kafka_positions(entry.positions)
        self.coordinator.commit(EpochContext(epoch=entry.epoch, positions=positions), parts)
        sinks = {
            name: msgspec.structs.replace(part, milliseconds=parts[name].milliseconds) if name in parts else part
            for name, part in entry.sinks.items()
        }
        self.ledger.write(
            msgspec.structs.replace(entry, phase=DONE, term=self.owner.term, sinks=sinks, finished_at=self.now())
        )
        self.resolved.append(
            f"epoch {entry.epoch} was decided ({entry.decider}) in term {entry.term} and not finished: committed in "
            f"{', '.join(parts)}"
        )
