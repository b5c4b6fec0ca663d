"""What a start concludes from the sinks' last commits and the ledger. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from sys import maxsize
from typing import Literal

from onceward.epoch.contract import EpochContext, LastCommit, Owner
from onceward.epoch.expected import NEVER, Expected
from onceward.epoch.ledger import PREPARED, Entry, Ledger
from onceward.epoch.outcome import Outcome
from onceward.errors import ForeignLineage, HomeMismatch, LedgerCorrupt, MarkerMissing, ReplayDiverged

InDoubt = Literal["committed", "aborted"]


@dataclass(frozen=True, slots=True)
class Recovered:
    """Up to which epoch everything is decided (`NEVER`: nothing is), and the deciding sink's word for the last one.

    `unfinished`: that last epoch, if it may not be visible in every sink yet.
    `on_trust`: a person said so, or another sink's marker did: of its counts nothing is known.
    """

    committed: int
    last: LastCommit | None = None
    unfinished: Entry | None = None
    on_trust: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What a person says knowingly at a start, where Onceward would rather stop.

    trust_ledger: sinks whose markers, gone or behind, are overruled by the ledger; no other sink's is.
    in_doubt: how the epoch ended that only the lost marker knew about.
    replan: the planned epoch, which nobody has committed, is planned anew (another size, another input).
    confirm: told what the ledger overrules, before anything is written; raises to stop.
    """

    trust_ledger: frozenset[str] = frozenset()
    in_doubt: InDoubt | None = None
    replan: bool = False
    confirm: Callable[[list[str]], None] = field(default=lambda _: None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known at a start, whoever decides: the newest epoch that is done, and the newest that Spark planned.

    `seen`: the newest epoch that somebody who acts only after the decision has: another sink's marker, Spark's commit
    log.
    """

    owner: Owner
    expected: Expected
    recorded: Entry | None
    pending: int | None = None
    seen: int = NEVER
    consent: Consent = field(default_factory=Consent)

    @property
    def done(self) -> int:
        """The newest epoch that the ledger has as done."""
        return self.recorded.epoch if self.recorded is not None else NEVER

    def fault_of_decider(self, sink: str, last: LastCommit | None) -> Exception | None:
        """It may have decided any epoch since.

        Where it is to hold nothing of this lineage, a driver that was overtaken may have given it its first marker.
        """
        first = self.done + 1 if self.expected.is_ours(sink) else NEVER
        return self.expected.fault(sink, last, range(first, maxsize))

    def fault_of(self, sink: str, last: LastCommit | None, recovered: Recovered) -> Exception | None:
        """Of a sink that does not decide: it may be as far as the decisions."""
        return self.expected.fault(sink, last, range(self.done + 1, recovered.committed + 1))


def by_marker(known: Known, sink: str, last: LastCommit | None, ledger: Ledger, others: Iterable[str]) -> Recovered:
    """Kafka decides: its marker says how far the pipeline is, and which term's votes count. `others`: who voted."""
    if last is not None:
        require_ours(known.owner, sink, last)
    if (fault := known.fault_of_decider(sink, last)) is not None:
        if not isinstance(fault, MarkerMissing) or sink in known.consent.trust_ledger:
            return _on_trust(known, sink, fault, ledger)
        raise MarkerMissing(f"{fault}{_doubt(known, sink, ledger)}")
    if last is None or last.lineage != known.owner.lineage or last.epoch < known.done:
        return Recovered(known.done)  # it has no part in what is done: it is new, was out, or the lineage is new
    if last.epoch in (NEVER, known.done):
        return Recovered(last.epoch, last)
    entry = ledger.read_of(last.epoch, last.term)
    if entry is None and not set(others):
        return Recovered(last.epoch, last)
    if entry is None:
        raise LedgerCorrupt(
            f"Kafka has epoch {last.epoch} of {known.owner.pipeline!r} as decided, but the ledger's entry with the "
            f"other sinks' votes (epoch {last.epoch}, term {last.term}) is missing. Restore the home's ledger/ from a "
            "backup."
        )
    return Recovered(last.epoch, last, entry if entry.phase == PREPARED else None)


def by_ledger(known: Known, decided: Entry | None) -> Recovered:
    """The ledger decides: the newest decision counts."""
    recorded = known.recorded
    if decided is None or (recorded is not None and decided.epoch <= recorded.epoch):
        return Recovered(recorded.epoch if recorded is not None else NEVER)
    return Recovered(decided.epoch, unfinished=decided)


def check_marker(known: Known, recovered: Recovered, sink: str, last: LastCommit | None) -> None:
    """A sink that does not decide must agree: not ahead of the decisions, not behind what is done."""
    if last is not None:
        require_ours(known.owner, sink, last)
    fault = known.fault_of(sink, last, recovered)
    if fault is not None and not (isinstance(fault, MarkerMissing) and sink in known.consent.trust_ledger):
        raise fault


def overruled(
    known: Known, recovered: Recovered, decider: str | None, found: Mapping[str, LastCommit | None]
) -> list[str]:
    """Each marker that the ledger is trusted instead of, in words."""
    told = []
    for sink in sorted(known.consent.trust_ledger & found.keys()):
        last = found[sink]
        fault = known.fault_of_decider(sink, last) if sink == decider else known.fault_of(sink, last, recovered)
        if fault is not None:
            told.append(
                f"{known.expected.difference(sink, last)}; as asked, the ledger counts: the pipeline goes on after "
                f"epoch {recovered.committed}, and what the sink lacks stays missing there"
            )
    return told


def expected_outcomes(
    context: EpochContext,
    positions: list[str],
    recovered: Recovered,
    ledger: Ledger,
    *,
    pipeline: str,
    sinks: Iterable[str],
) -> Mapping[str, Outcome]:
    """What a replayed epoch must produce again, sink by sink; raises if it is unknown, or if the input differs."""
    entry = ledger.read(context.epoch)
    if entry is not None:
        if entry.positions != positions:
            raise _diverged(
                pipeline, context.epoch, [f"input {entry.positions}, now {positions}"],
                "Spark's offset log has changed",
            )  # fmt: skip
        return {sink: outcome for sink in sinks if (outcome := entry.outcome_of(sink)) is not None}
    last = recovered.last
    if last is None or last.epoch != context.epoch or last.outcome is None:
        raise LedgerCorrupt(
            f"epoch {context.epoch} of {pipeline!r} is committed and must be replayed, but its ledger entry is "
            "missing, so the replay cannot be checked. Restore the home's ledger/ from a backup."
        )
    moved = [
        f"{place} ends at {context.positions[place]}, was {offset}"
        for place, offset in sorted(last.positions.items())
        if place in context.positions and context.positions[place] != offset
    ]
    if moved:
        raise _diverged(pipeline, context.epoch, moved, "Spark's offset log has changed")
    return dict.fromkeys(sinks, last.outcome)


def compare_replay(
    pipeline: str, epoch: int, was: Mapping[str, Outcome], now: Mapping[str, Outcome]
) -> ReplayDiverged | None:
    """The error to raise when a replay differs, or None."""
    several = len(was) > 1
    differences = [
        f"{sink}: {difference}" if several else difference
        for sink, outcome in was.items()
        for difference in outcome.differences(now[sink])
    ]
    return _diverged(pipeline, epoch, differences, "the query is not deterministic") if differences else None


def _doubt(known: Known, sink: str, ledger: Ledger) -> str:
    """What a person has to know of a decider's marker that is gone."""
    doubtful = _doubtful(known, ledger) if known.expected.is_ours(sink) else None
    causes = (
        " Of a Kafka sink the marker is gone when the group's offsets have expired (offsets.retention.minutes, 7 days "
        "without a commit), when the group was deleted, when another consumer commits to it, when a cluster was "
        "restored from a backup or has elected an unclean leader, or when this is another cluster. Starting from zero "
        "would commit everything again."
    )
    if doubtful is None:
        return f"{causes} No epoch is in doubt."
    return (
        f"{causes} Epoch {doubtful} is in doubt: only the marker knew whether it was committed. Compare the output "
        "topics with it, then also say in_doubt='committed' or in_doubt='aborted' (--in-doubt committed, --in-doubt "
        "aborted)."
    )


def _on_trust(known: Known, sink: str, fault: Exception, ledger: Ledger) -> Recovered:
    """Without the marker: the ledger, whoever acts only after the decision, and last the person who starts it."""
    if not isinstance(fault, MarkerMissing):
        raise fault
    if not known.expected.is_ours(sink):  # it has decided nothing in this lineage yet
        return Recovered(known.done)
    doubtful, committed = _doubtful(known, ledger), max(known.done, known.seen)
    if doubtful is not None:
        committed = doubtful - 1  # none is planned before the one before it is committed everywhere
        if known.consent.in_doubt is None:
            raise MarkerMissing(
                f"epoch {doubtful} of {known.owner.pipeline!r} is in doubt: only the marker, which is gone, knew "
                "whether it was committed, and no other sink has it. Compare the output topics with it, then say so: "
                "in_doubt='committed' or in_doubt='aborted' (--in-doubt committed, --in-doubt aborted)."
            )
        if known.consent.in_doubt == "committed":
            committed = doubtful
    if committed == known.done:
        return Recovered(committed)
    voted = ledger.read(committed)
    unfinished = voted if voted is not None and voted.phase == PREPARED else None
    return Recovered(committed, unfinished=unfinished, on_trust=True)


def _doubtful(known: Known, ledger: Ledger) -> int | None:
    """The epoch that was voted for or planned after all that are known to be committed: it may have been, too."""
    voted = ledger.last(PREPARED)
    candidates = (voted.epoch if voted is not None else NEVER, known.pending if known.pending is not None else NEVER)
    newest = max(candidates)
    return newest if newest > max(known.done, known.seen) else None


def require_ours(owner: Owner, sink: str, last: LastCommit) -> None:
    """The same lineage, and no term that this home has not seen. Sinks ask it too, before they fence anybody.

    Or what the sink held when this lineage began, with a savepoint or by a reset.
    """
    if owner.before.get(sink) == (last.lineage, last.epoch):
        return
    if last.lineage != owner.lineage:
        raise ForeignLineage(
            f"sink {sink!r} holds epoch {last.epoch} of pipeline {owner.pipeline!r} under lineage {last.lineage}, but "
            f"this home has lineage {owner.lineage}: the home is new, or another home uses the same name. Going on "
            "would commit everything a second time. Use the pipeline's own home, or give this one another name; if "
            "that home is lost for good, begin anew in this one: onceward reset HOME --file FILE.py, with --from-group "
            "from where the last commit to Kafka ended.",
            last,
        )
    if last.term > owner.term:
        raise HomeMismatch(
            f"the marker of {owner.pipeline!r} in sink {sink!r} was written in term {last.term}, this home is at term "
            f"{owner.term}: the home is an old copy. Use the newest one."
        )


def _diverged(pipeline: str, epoch: int, differences: list[str], cause: str) -> ReplayDiverged:
    shown = "; ".join(differences[:8]) + (f"; and {len(differences) - 8} more" if len(differences) > 8 else "")
    return ReplayDiverged(
        f"pipeline {pipeline!r}, epoch {epoch} is committed already, and running it again gives something else "
        f"({cause}): {shown}. Usual causes: random or current-time functions, a lookup that changed, sums of "
        "floating-point numbers (their last digits depend on row order: use decimals). To go on knowingly with the "
        "state of this second run, start once with on_replay_divergence='warn'."
    )
