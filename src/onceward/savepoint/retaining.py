"""What becomes of a pipeline's checkpoint when it has ended: kept, or dropped. The ledger always stays.

Dropping ends the pipeline for good, and that is one claimed slot (`onceward.epoch.deeds`), in a term of its own:
whoever starts at the same moment finds it claimed, or has closed it. What follows is deleting files that nobody looks
at any more. With anything that may still need the checkpoint (an epoch in doubt, a savepoint that is being made or
asked for) it is kept, whatever the policy says.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from onceward.epoch import deeds
from onceward.epoch.deeds import Ended
from onceward.epoch.inspection import doubt_of
from onceward.epoch.runner import EpochRunner
from onceward.epoch.starting import Opened
from onceward.epoch.stop_request import asked
from onceward.errors import PipelineFenced
from onceward.events import logger
from onceward.savepoint import pins
from onceward.savepoint.creating import clear_leftovers

Retain: TypeAlias = Literal["always", "on-failure", "never"]
POLICIES: Final = ("always", "on-failure", "never")

log = logger("onceward.pipeline")


def settle(
    opened: Opened,
    runner: EpochRunner,
    failure: BaseException | None,
    retain: Retain,
    delete: Callable[[str], None],
    *,
    saves: bool,
    now: Callable[[], str],
) -> None:
    """The query has ended, and nobody has taken the home since: do as the policy says. `delete` takes a location.

    saves: it was stopped so that a savepoint can be made.
    """
    if retain == "always" or (retain == "on-failure" and failure is not None) or isinstance(failure, PipelineFenced):
        return
    pipeline, done = opened.taken.owner.pipeline, opened.taken.ledger.last()
    if (needed := _needed(opened, runner, saves=saves)) is not None:
        log.warning(
            "the checkpoint of pipeline %r is kept, against retain=%r: %s", pipeline, retain, needed,
            extra={"event": "checkpoint_kept", "pipeline": pipeline, "reason": needed},
        )  # fmt: skip
        return
    if done is None:  # nothing is lost with it, and nothing is gained
        return
    try:
        ended = Ended(epoch=done.epoch, reason=_reason(opened, failure), retain=retain, at=now())
        _drop(opened, ended, delete)
    except (OSError, PipelineFenced) as error:
        log.warning(
            "the checkpoint of pipeline %r could not be dropped: %s", pipeline, error,
            extra={"event": "checkpoint_not_dropped", "pipeline": pipeline, "reason": str(error)},
        )  # fmt: skip


def _drop(opened: Opened, ended: Ended, delete: Callable[[str], None]) -> None:
    storage, term = opened.whole.storage, opened.taken.term.following()
    try:
        deeds.enter(storage, term.number)
        if not deeds.end(storage, term.number, ended):
            return
        if not storage.names(pins.FOLDER) and not asked(storage, opened.taken.term.number):  # since we looked
            delete(opened.taken.checkpoint.location)
    finally:
        term.release()


def _needed(opened: Opened, runner: EpochRunner, *, saves: bool) -> str | None:
    """Why the checkpoint may still be needed."""
    storage, makers = opened.whole.storage, list[str]()
    if saves or asked(storage, opened.taken.term.number):  # perhaps nobody has heard it: the query ended by itself
        return "a savepoint is to be made of it"
    clear_leftovers(opened.whole, makers.append)
    if storage.names(pins.FOLDER):
        return f"a savepoint of it is being made ({'; '.join(makers) or 'by whom cannot be told'})"
    if not runner.idle.is_set():  # it was waited for long enough, and is still at work in the checkpoint
        return f"epoch {runner.running} has not ended yet"
    if not runner.settled:
        why = f"{type(runner.failure).__name__}: {runner.failure}"
        return f"its last epoch failed on the way, and the next start resolves it ({why[:200]})"
    doubt = doubt_of(opened.taken.ledger, opened.taken.decisions)
    return f"epoch {doubt.entry.epoch} is in doubt, and the next start resolves it" if doubt is not None else None


def _reason(opened: Opened, failure: BaseException | None) -> str:
    if failure is not None:
        return f"failed: {type(failure).__name__}"
    return "stopped" if opened.stop.is_set() else "finished"
