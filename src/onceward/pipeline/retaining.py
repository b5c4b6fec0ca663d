"""What becomes of a pipeline's checkpoint when it has ended: kept, or dropped. The ledger always stays.

Dropping begins with one rename of the folder: whoever starts at the same moment has it whole, or finds it gone.
An epoch in doubt needs its checkpoint: with anything unresolved it is kept, whatever the policy says.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from onceward.epoch.home import CHECKPOINTS, Home
from onceward.epoch.inspection import doubt_of
from onceward.epoch.recovery import NEVER
from onceward.epoch.runner import EpochRunner, Stopping
from onceward.epoch.sealed import seal, unseal
from onceward.epoch.storage import Storage
from onceward.errors import (
    CheckpointDropped,
    ConfigurationError,
    EpochFailed,
    EpochTooLong,
    InputLost,
    PipelineFenced,
    RecordTooLarge,
    ReplayDiverged,
    RowsDropped,
)
from onceward.events import logger
from onceward.pipeline.opening import Opened, now

Retain: TypeAlias = Literal["always", "on-failure", "never"]
POLICIES: Final = ("always", "on-failure", "never")
FORMAT: Final = 1
FILE: Final = "ended.json"
DROPPED: Final = "dropped"  # below the checkpoints: what is about to be deleted
# After these nothing of the epoch is visible, or none had begun.
SETTLED: Final = (
    ConfigurationError, EpochFailed, EpochTooLong, InputLost, RecordTooLarge, ReplayDiverged, RowsDropped, Stopping,
)  # fmt: skip

log = logger("onceward.pipeline")


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """A pipeline that has ended for good: its checkpoint was not retained."""

    format: int = FORMAT
    pipeline: str
    lineage: str
    term: int
    epoch: int  # the last committed one; -1: none
    reason: str
    retain: str
    at: str

    def __str__(self) -> str:
        reached = f"after epoch {self.epoch}" if self.epoch > NEVER else "before its first epoch"
        return f"ended {reached}, at {self.at} ({self.reason}), with retain={self.retain!r}: its checkpoint is gone"


def read(storage: Storage) -> Ended | None:
    """How the pipeline has ended for good; None: it has not."""
    data = storage.read(FILE)
    return unseal(data, Ended, FILE, FORMAT) if data is not None else None


def require_retained(home: Home) -> None:
    """Refuse to start where there is nothing to start from."""
    ended = read(home.storage)
    dropped = home.storage.names(f"{CHECKPOINTS}/{DROPPED}")
    if ended is None and not dropped:
        return
    how = f"{ended.pipeline!r} {ended}" if ended is not None else "a pipeline that was dropping its checkpoint"
    raise CheckpointDropped(
        f"{home.location} is the home of {how}. Its positions and its state are gone, so it cannot go on: restore a "
        "savepoint (`onceward run FILE.py --from SAVEPOINT`), or begin anew: `onceward reset HOME --file FILE.py` says "
        "what that means for each sink. To keep checkpoints: retain='always'."
    )


def settle(
    opened: Opened, runner: EpochRunner, failure: BaseException | None, retain: Retain, delete: Callable[[str], None]
) -> None:
    """The query has ended, and the home is still ours: do as the policy says. `delete` takes a folder's location."""
    if retain == "always" or (retain == "on-failure" and failure is not None):
        return
    if isinstance(failure, PipelineFenced):
        return  # the newer driver's now
    doubt = _unresolved(opened, runner)
    if doubt is not None:
        log.warning(
            "the checkpoint of pipeline %r is kept, against retain=%r: %s. The next start resolves it.",
            opened.taken.owner.pipeline, retain, doubt,
            extra={"event": "checkpoint_kept", "pipeline": opened.taken.owner.pipeline, "reason": doubt},
        )  # fmt: skip
        return
    try:
        _drop(opened, _reason(opened, failure), retain, delete)
    except OSError as error:
        log.warning(
            "the checkpoint of pipeline %r could not be dropped: %s", opened.taken.owner.pipeline, error,
            extra={"event": "checkpoint_not_dropped", "pipeline": opened.taken.owner.pipeline, "reason": str(error)},
        )  # fmt: skip


def _drop(opened: Opened, reason: str, retain: Retain, delete: Callable[[str], None]) -> None:
    taken, storage = opened.taken, opened.home.storage
    folder = f"{CHECKPOINTS}/{DROPPED}/{taken.term.number:06d}"
    taken.term.require_current()
    if not storage.move(taken.checkpoint.folder, folder):
        return  # a start was quicker, or there never was one
    done = taken.ledger.last()
    ended = Ended(
        pipeline=taken.owner.pipeline,
        lineage=taken.owner.lineage,
        term=taken.term.number,
        epoch=done.epoch if done is not None else NEVER,
        reason=reason,
        retain=retain,
        at=now(),
    )
    storage.replace(FILE, seal(ended))
    delete(opened.home.uri(f"{CHECKPOINTS}/{DROPPED}"))


def _unresolved(opened: Opened, runner: EpochRunner) -> str | None:
    if not runner.idle.is_set():  # it was waited for long enough, and is still at work in the checkpoint
        return f"epoch {runner.running} has not ended yet"
    failed = runner.failure
    if failed is not None and not isinstance(failed, SETTLED):
        return f"its last epoch failed on the way ({type(failed).__name__}: {str(failed)[:200]})"
    taken = opened.taken
    doubt = doubt_of(taken.ledger, taken.decisions)
    return f"epoch {doubt.entry.epoch} is in doubt" if doubt is not None else None


def _reason(opened: Opened, failure: BaseException | None) -> str:
    if failure is not None:
        return f"failed: {type(failure).__name__}"
    return "stopped" if opened.stop.is_set() else "finished"
