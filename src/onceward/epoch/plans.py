"""Spark's plans of epochs (its offset log) against what we know of them: the ledger's entries and the marker.

Spark starts from the last finished epoch's positions, whatever its file says. A file that was altered, or written by
an overtaken driver, would repeat or lose input without an error. So the plans that a start builds on are compared, and
put back as the ledger kept them; where nothing tells what is right, the start is refused.
"""

from collections.abc import Mapping

from onceward.epoch.checkpoint import Checkpoint, Positions, TornEntry, kafka_positions
from onceward.epoch.contract import LastCommit
from onceward.epoch.ledger import Entry, Ledger
from onceward.epoch.outcome import TopicPartition
from onceward.epoch.recovery import Recovered
from onceward.errors import HomeMismatch


def put_right(checkpoint: Checkpoint, ledger: Ledger, recovered: Recovered) -> list[str]:
    """What was put right, in words."""
    told: list[str] = []
    committed = recovered.committed
    for epoch in (committed - 1, committed):  # the end of the one is where a replay of the other begins
        if epoch >= 0:
            entry = ledger.read(epoch)
            if entry is None and recovered.unfinished is not None and epoch == committed:
                entry = recovered.unfinished
            told += _put_plan_right(checkpoint, epoch, entry, recovered.last if epoch == committed else None)
    planned = checkpoint.planned()
    if planned is not None and planned > committed and (reason := _unusable(checkpoint, planned)):
        checkpoint.discard(planned)
        told.append(f"{reason}: nobody has committed epoch {planned}, so it is planned anew")
    return told


def _unusable(checkpoint: Checkpoint, epoch: int) -> str:
    """What is wrong with the plan of an epoch that is not committed; empty: nothing."""
    try:
        plan, before = checkpoint.read(epoch), checkpoint.read(epoch - 1)
    except TornEntry as torn:
        return str(torn)
    if plan is None or before is None:
        return ""
    if len(plan.texts) < len(before.texts):
        return f"{checkpoint.location}/offsets/{epoch} has lost a source"
    behind = _behind(before.kafka, plan.kafka)
    return f"{checkpoint.location}/offsets/{epoch} ends before it begins ({behind})" if behind else ""


def _behind(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> str:
    """Where a plan goes back: it was made from positions that were altered."""
    return ", ".join(
        f"{place} from {offset} to {ends[place]}"
        for place, offset in sorted(begins.items())
        if ends.get(place, offset) < offset
    )


def require_continuity(checkpoint: Checkpoint, before: int, positions: list[str], plan: Positions) -> None:
    """The epoch before this one ends in Spark's log where we know that it ended, and this one goes on from there."""
    try:
        found = checkpoint.read(before)
    except TornEntry as torn:
        raise HomeMismatch(f"{torn} while the pipeline was running. The next start puts it back.") from torn
    if found is not None and found.texts != positions:
        raise HomeMismatch(
            f"Spark's log has epoch {before} end at {', '.join(found.texts)}, but it was committed up to "
            f"{', '.join(positions)}: {checkpoint.location}/offsets/{before} was altered while the pipeline was "
            "running. Nothing more is written; the next start puts it back."
        )
    if behind := _behind(kafka_positions(positions), plan.kafka):
        raise HomeMismatch(
            f"Spark plans the epoch after {before} backwards ({behind}): it started from positions that were altered. "
            "Nothing more is written; the next start plans it anew."
        )


def _put_plan_right(checkpoint: Checkpoint, epoch: int, entry: Entry | None, last: LastCommit | None) -> list[str]:
    file = f"{checkpoint.location}/offsets/{epoch}"
    if entry is not None and last is not None:
        _require_same(file, kafka_positions(entry.positions), last, "the ledger's entry")
    torn: TornEntry | None = None
    found: Positions | None = None
    try:
        found = checkpoint.read(epoch)
    except TornEntry as error:
        torn = error
    if found is None and torn is None:
        return []  # whether it may be missing is asked elsewhere
    if entry is None or not entry.positions:
        if torn is not None:
            raise HomeMismatch(f"{torn}, and the ledger does not have it. Restore the home from a backup.") from torn
        if last is not None and found is not None:
            _require_same(file, found.kafka, last, "Spark's log")
        return []
    if found is not None and found.plan == entry.plan:  # positions, and the watermark that state was built with
        return []
    checkpoint.restore(epoch, entry.plan)
    was = "was torn" if found is None else f"said {', '.join(found.texts)}"
    if found is not None and found.texts == entry.positions:
        was = f"said otherwise ({found.plan.splitlines()[1]})"
    return [f"{file} {was}, epoch {epoch} was committed up to {', '.join(entry.positions)}: put back from the ledger"]


def _require_same(file: str, positions: Mapping[TopicPartition, int], last: LastCommit, whose: str) -> None:
    moved = [
        f"{place} up to {offset}, {whose} says {positions[place]}"
        for place, offset in sorted(last.positions.items())
        if place in positions and positions[place] != offset
    ]
    if moved:
        raise HomeMismatch(
            f"epoch {last.epoch} was committed with {'; '.join(moved)} ({file}): a file of the home was altered, or "
            "the home is of several backups. Going on would repeat or lose input. Restore all of it from one backup."
        )
