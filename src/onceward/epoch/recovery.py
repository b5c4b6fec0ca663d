"""What a start concludes from the sinks' last commits and the ledger. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from onceward.epoch import sink_changes
from onceward.epoch.contract import EpochContext, LastCommit, Owner
from onceward.epoch.ledger import PREPARED, Entry, Ledger
from onceward.epoch.outcome import Outcome
from onceward.errors import ForeignLineage, HomeMismatch, LedgerCorrupt, MarkerMissing, ReplayDiverged

NEVER = -1


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

    trust_ledger: a marker that is gone or behind is overruled by the ledger.
    in_doubt: how the epoch ended that only the lost marker knew about.
    replan: the planned epoch, which nobody has committed, is planned anew (another size, another input).
    """

    trust_ledger: bool = False
    in_doubt: InDoubt | None = None
    replan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known at a start, whoever decides: the newest epoch that is done, and the newest that Spark planned.

    `marked`: the deciding sink is known to have had a marker since it last took part. `seen`: the newest epoch that
    somebody who acts only after the decision has: another sink's marker, Spark's commit log.
    """

    pipeline: str
    lineage: str
    term: int
    recorded: Entry | None
    pending: int | None = None
    marked: bool = False
    seen: int = NEVER
    consent: Consent = Consent()
    inherits: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def done(self) -> int:
        """The newest epoch that the ledger has as done."""
        return self.recorded.epoch if self.recorded is not None else NEVER


def by_marker(known: Known, sink: str, last: LastCommit | None, ledger: Ledger, others: Iterable[str]) -> Recovered:
    """Kafka decides: its marker says how far the pipeline is, and which term's votes count."""
    if last is None:
        if not known.marked:
            _require_inherited(known, sink)
        return _without_marker(known, ledger)
    require_ours(known, sink, last)
    if last.lineage != known.lineage:  # what the sink held when this lineage began
        return _without_marker(known, ledger)
    if last.epoch < known.done:
        return _behind(known, last, ledger)
    if last.epoch in (NEVER, known.done):
        return Recovered(last.epoch, last)
    # Looked up even if Kafka is the only sink now: a sink that was taken out since may have voted.
    entry = ledger.read_of(last.epoch, last.term)
    if entry is None and not set(others):
        return Recovered(last.epoch, last)
    if entry is None:
        raise LedgerCorrupt(
            f"Kafka has epoch {last.epoch} of {known.pipeline!r} as decided, but the ledger's entry with the other "
            f"sinks' votes (epoch {last.epoch}, term {last.term}) is missing. Restore the home's ledger/ from a "
            "backup; or, if the other sinks are new, start once without them."
        )
    return Recovered(last.epoch, last, entry if entry.phase == PREPARED else None)


def _behind(known: Known, last: LastCommit, ledger: Ledger) -> Recovered:
    """The ledger knows of more than Kafka's marker."""
    if known.consent.trust_ledger:
        return _on_trust(known, ledger)
    if not known.marked and last.epoch + 1 == sink_changes.since(ledger, known.done, sink_changes.without_decider):
        return Recovered(known.done)  # all that it does not know of went without it: it was taken out, and is back
    raise MarkerMissing(
        f"the ledger has epoch {known.done} of {known.pipeline!r} as committed, Kafka's marker says {last.epoch}: "
        "Kafka has lost committed data (an unclean leader election, or a cluster restored from a backup). Check the "
        "output topics, then start with --trust-ledger to go on after the ledger's last epoch."
    )


def by_ledger(known: Known, decided: Entry | None) -> Recovered:
    """The ledger decides: the newest decision counts."""
    recorded = known.recorded
    if decided is None or (recorded is not None and decided.epoch <= recorded.epoch):
        return Recovered(recorded.epoch if recorded is not None else NEVER)
    return Recovered(decided.epoch, unfinished=decided)


def check_marker(known: Known, recovered: Recovered, sink: str, last: LastCommit | None, ledger: Ledger) -> None:
    """A sink that does not decide must agree: not ahead of the decisions, not behind what is done."""
    if last is None and (known.recorded is None or sink not in known.recorded.sinks):
        _require_inherited(known, sink)
    if last is not None:
        require_ours(known, sink, last)
        if last.lineage != known.lineage:
            last = None  # what the sink held when this lineage began: none of ours
        elif last.epoch > recovered.committed:
            raise HomeMismatch(
                f"sink {sink!r} holds epoch {last.epoch} of pipeline {known.pipeline!r}, but the home knows of none "
                f"after {recovered.committed}: the home is an old copy, or files of it are missing. Going on would put "
                "epochs out again. Use the newest home, or restore it from a backup."
            )
    if known.recorded is None or known.consent.trust_ledger:
        return
    newest = sink_changes.last_with(sink, ledger, known.recorded)
    if newest is not None and (last is None or last.epoch < newest):
        found = "has no marker of it" if last is None else f"says {last.epoch}"
        raise MarkerMissing(
            f"the ledger has epoch {newest} of {known.pipeline!r} as committed, sink {sink!r} {found}: it was "
            "emptied, restored from a backup, or is another one. Check what it holds, then start with --trust-ledger "
            "(trust_ledger=True) to go on after the ledger's last epoch."
        )


def _require_inherited(known: Known, sink: str) -> None:
    """Nothing of this lineage is in the sink yet; what it held when the lineage began still must be."""
    held = known.inherits.get(sink)
    if held is None or known.consent.trust_ledger:
        return
    raise MarkerMissing(
        f"this lineage of pipeline {known.pipeline!r} began, with a savepoint or by a reset, when sink {sink!r} held "
        f"epoch {held[1]} of lineage {held[0]}, and now it holds none: it was emptied, restored from a backup, or is "
        "another one. Check what it holds, then start with --trust-ledger (trust_ledger=True) to go on without it."
    )


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


def _without_marker(known: Known, ledger: Ledger) -> Recovered:
    """Never written, or gone? Every pipeline writes a marker before its first epoch, and notes it in its home."""
    if not known.marked:
        return Recovered(known.done)
    if known.consent.trust_ledger:
        return _on_trust(known, ledger)
    doubtful = _doubtful(known, ledger)
    doubt = (
        f" Epoch {doubtful} is in doubt: only the marker knew whether it was committed. Compare the output topics with "
        "it, then also say in_doubt='committed' or in_doubt='aborted' (--in-doubt committed, --in-doubt aborted)."
        if doubtful is not None
        else " No epoch is in doubt."
    )
    upto = f"has committed up to epoch {known.done}" if known.done != NEVER else "has run before"
    raise MarkerMissing(
        f"pipeline {known.pipeline!r} {upto}, but Kafka has no marker of it: the group's offsets expired "
        "(offsets.retention.minutes, 7 days without a commit), the group was deleted, another consumer commits to it, "
        f"or this is another cluster. Starting from zero would commit everything again.{doubt} "
        "Start with --trust-ledger (trust_ledger=True) to go on after the ledger's last epoch."
    )


def _on_trust(known: Known, ledger: Ledger) -> Recovered:
    """Without the marker: the ledger, whoever acts only after the decision, and last the person who starts it."""
    doubtful, committed = _doubtful(known, ledger), max(known.done, known.seen)
    if doubtful is not None:
        committed = doubtful - 1  # none is planned before the one before it is committed everywhere
        if known.consent.in_doubt is None:
            raise MarkerMissing(
                f"epoch {doubtful} of {known.pipeline!r} is in doubt: only the marker, which is gone, knew whether it "
                "was committed, and no other sink has it. Compare the output topics with it, then say so: "
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


def require_ours(known: Known | Owner, sink: str, last: LastCommit) -> None:
    """The same lineage, and no term that this home has not seen. Sinks ask it too, before they fence anybody.

    Or what the sink held when this lineage began, with a savepoint or by a reset.
    """
    if known.inherits.get(sink) == (last.lineage, last.epoch):
        return
    if last.lineage != known.lineage:
        raise ForeignLineage(
            f"sink {sink!r} holds epoch {last.epoch} of pipeline {known.pipeline!r} under lineage {last.lineage}, but "
            f"this home has lineage {known.lineage}: the home is new, or another home uses the same name. Going on "
            "would commit everything a second time. Use the pipeline's own home, or give this one another name; if "
            "that home is lost for good, begin anew in this one: onceward reset HOME --file FILE.py, with --from-group "
            "from where the last commit to Kafka ended.",
            last,
        )
    if last.term > known.term:
        raise HomeMismatch(
            f"the marker of {known.pipeline!r} in sink {sink!r} was written in term {last.term}, this home is at term "
            f"{known.term}: the home is an old copy. Use the newest one."
        )


def _diverged(pipeline: str, epoch: int, differences: list[str], cause: str) -> ReplayDiverged:
    shown = "; ".join(differences[:8]) + (f"; and {len(differences) - 8} more" if len(differences) > 8 else "")
    return ReplayDiverged(
        f"pipeline {pipeline!r}, epoch {epoch} is committed already, and running it again gives something else "
        f"({cause}): {shown}. Usual causes: random or current-time functions, a lookup that changed, sums of "
        "floating-point numbers (their last digits depend on row order: use decimals). To go on knowingly with the "
        "state of this second run, start once with on_replay_divergence='warn'."
    )
