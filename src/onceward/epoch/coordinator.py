"""One epoch from begin to commit, with retries: the two-phase commit over a pipeline's sink.

Pure: clock, sleep and what counts as final are passed in.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from onceward import crashpoints
from onceward.epoch.contract import EpochContext, TwoPhaseCommitSink, Verdict
from onceward.epoch.outcome import Outcome
from onceward.errors import EpochFailed

ATTEMPTS: Final = 6
BACK_OFF_S: Final = (0.0, 0.2, 1.0, 3.0, 5.0)  # the first retry at once: most failures are a lost task or worker

log = logging.getLogger("onceward.epoch")


@dataclass(slots=True)
class Attempted:
    """How an epoch went."""

    outcome: Outcome
    attempts: int
    milliseconds: dict[str, float] = field(default_factory=dict)


def run_epoch(
    sink: TwoPhaseCommitSink,
    context: EpochContext,
    rows: Any,
    *,
    require_current: Callable[[], None],
    is_final: Callable[[Exception], bool],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> Attempted:
    """Try the epoch until it is committed; nothing of a failed try is ever visible."""
    causes: list[str] = []
    for attempt in range(1, ATTEMPTS + 1):
        began = clock()
        sink.begin(context)
        crashpoints.reach("begun", context.epoch)
        try:
            outcome = sink.write(context, rows, attempt=attempt)
            written = clock()
            crashpoints.reach("written", context.epoch)
            committable = sink.pre_commit(context, outcome)
            require_current()
        except Exception as error:
            sink.abort(context)
            if is_final(error):
                raise
            if attempt == ATTEMPTS:
                raise EpochFailed(_failure(context.epoch, [*causes, _line(error)])) from error
            causes.append(_line(error))
            log.warning("epoch %d, try %d was aborted and is redone: %s", context.epoch, attempt, _line(error))
        else:
            if sink.commit(context, committable) is Verdict.COMMITTED:
                crashpoints.reach("committed", context.epoch)
                times = {"write": (written - began) * 1000, "commit": (clock() - written) * 1000}
                return Attempted(outcome, attempt, {name: round(value, 2) for name, value in times.items()})
            causes.append("the sink proved that the commit did not happen (a transaction that timed out)")
            log.warning("epoch %d, try %d: %s; it is redone", context.epoch, attempt, causes[-1])
        sleep(BACK_OFF_S[min(attempt - 1, len(BACK_OFF_S) - 1)])
    raise EpochFailed(_failure(context.epoch, causes))


def _line(error: Exception) -> str:
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:500]


def _failure(epoch: int, causes: list[str]) -> str:
    tries = "; ".join(f"try {number}: {cause}" for number, cause in enumerate(causes, start=1))
    return f"epoch {epoch} was aborted {len(causes)} times, nothing of it is visible and nothing is lost. {tries}"
