"""What a start concludes from the sink's last commit and the ledger. Pure."""

from dataclasses import dataclass

from onceward.epoch.contract import EpochContext, LastCommit
from onceward.epoch.ledger import Entry, Ledger
from onceward.epoch.outcome import Outcome
from onceward.errors import HomeMismatch, LedgerCorrupt, MarkerMissing, ReplayDiverged

NEVER = -1


@dataclass(frozen=True, slots=True)
class Recovered:
    """Up to which epoch everything is out (`NEVER`: nothing is), and the sink's own word for the last one."""

    committed: int
    last: LastCommit | None = None


def recover(
    *,
    pipeline: str,
    lineage: str,
    term: int,
    last: LastCommit | None,
    recorded: Entry | None,
    pending: int | None,
    trust_ledger: bool = False,
) -> Recovered:
    """Compare what the sink says with what the ledger says.

    `recorded` is the ledger's newest finished epoch, `pending` the newest epoch Spark has planned.
    """
    if last is None:
        return _without_marker(pipeline, recorded, pending, trust_ledger=trust_ledger)
    if last.lineage != lineage:
        raise HomeMismatch(
            f"Kafka holds epoch {last.epoch} of pipeline {pipeline!r} under lineage {last.lineage}, but this home has "
            f"lineage {lineage}: the home is new, or another home uses the same name. Going on would put everything "
            f"out a second time. Use the pipeline's own home, or give this one another name, or, to start afresh "
            f"knowingly, delete the group: kafka-consumer-groups.sh --delete --group {pipeline}"
        )
    if last.term > term:
        raise HomeMismatch(
            f"Kafka's marker of {pipeline!r} was written in term {last.term}, this home is at term {term}: the home is "
            "an old copy. Use the newest one."
        )
    if recorded is not None and last.epoch < recorded.epoch:
        if trust_ledger:
            return Recovered(recorded.epoch)
        raise MarkerMissing(
            f"the ledger has epoch {recorded.epoch} of {pipeline!r} as committed, Kafka's marker says {last.epoch}: "
            "Kafka has lost committed data (an unclean leader election, or a cluster restored from a backup). "
            "Check the output topics, then start with --trust-ledger to go on after the ledger's last epoch."
        )
    return Recovered(last.epoch, last)


def _without_marker(pipeline: str, recorded: Entry | None, pending: int | None, *, trust_ledger: bool) -> Recovered:
    if recorded is None:
        return Recovered(NEVER)
    doubt = (
        f" Epoch {pending} was planned and is in doubt: compare the output topics with it first."
        if pending is not None and pending > recorded.epoch
        else " No epoch is in doubt."
    )
    if not trust_ledger:
        raise MarkerMissing(
            f"pipeline {pipeline!r} has committed up to epoch {recorded.epoch}, but Kafka has no marker of it: the "
            "group's offsets expired (offsets.retention.minutes, 7 days without a commit), the group was deleted, or "
            f"this is another cluster. Starting from zero would put everything out again.{doubt} "
            "Start with --trust-ledger (trust_ledger=True) to go on after the ledger's last epoch."
        )
    return Recovered(recorded.epoch)


def expected_outcome(
    context: EpochContext, positions: list[str], recovered: Recovered, ledger: Ledger, pipeline: str
) -> Outcome:
    """What a replayed epoch must produce again; raises if it cannot be known, or if the input differs."""
    entry = ledger.read(context.epoch)
    if entry is not None:
        if entry.positions != positions:
            raise _diverged(
                pipeline, context.epoch, [f"input {entry.positions}, now {positions}"], "Spark's offset log has changed"
            )
        return entry.outcome
    last = recovered.last
    if last is None or last.epoch != context.epoch:
        raise LedgerCorrupt(
            f"epoch {context.epoch} of {pipeline!r} is out and must be replayed, but its ledger entry is missing, so "
            "the replay cannot be checked. Restore the home's ledger/ from a backup."
        )
    moved = [
        f"{place} ends at {context.positions[place]}, was {offset}"
        for place, offset in sorted(last.positions.items())
        if place in context.positions and context.positions[place] != offset
    ]
    if moved:
        raise _diverged(pipeline, context.epoch, moved, "Spark's offset log has changed")
    return last.outcome


def compare_replay(pipeline: str, epoch: int, was: Outcome, now: Outcome) -> ReplayDiverged | None:
    """The error to raise when a replay differs, or None."""
    differences = was.differences(now)
    return _diverged(pipeline, epoch, differences, "the query is not deterministic") if differences else None


def _diverged(pipeline: str, epoch: int, differences: list[str], cause: str) -> ReplayDiverged:
    shown = "; ".join(differences[:8]) + (f"; and {len(differences) - 8} more" if len(differences) > 8 else "")
    return ReplayDiverged(
        f"pipeline {pipeline!r}, epoch {epoch} is out already, and running it again gives something else ({cause}): "
        f"{shown}. Usual causes: random or current-time functions, a lookup that changed, sums of floating-point "
        "numbers (their last digits depend on row order: use decimals). To go on knowingly with the state of this "
        "second run, start once with on_replay_divergence='warn'."
    )
