"""FunctionSink: a function of the user's, called with each epoch's rows, as Spark's foreachBatch does it.

It has no second phase: what the function does is done. That is at-least-once, or exactly-once in effect if writing an
epoch again changes nothing (`idempotent=True`: an upsert by key, a file named by the epoch).
"""

from collections.abc import Callable
from typing import ClassVar

from pyspark.sql import DataFrame

from onceward.epoch.contract import Committable, EpochContext, LastCommit, TwoPhaseCommitSink
from onceward.epoch.outcome import Outcome
from onceward.errors import ConfigurationError


class FunctionSink(TwoPhaseCommitSink):
    """Calls `function(rows, epoch)`; it may be called again with the same epoch and the same rows.

    idempotent: whether a second call with the same epoch leaves everything as the first one did.
    """

    remembers: ClassVar[bool] = False

    def __init__(self, function: Callable[[DataFrame, int], None], *, idempotent: bool = False) -> None:
        if not callable(function):
            raise ConfigurationError(f"FunctionSink takes a function of (rows, epoch), not {function!r}")
        self.function = function
        self.repeatable = idempotent

    def __repr__(self) -> str:
        return f"FunctionSink({getattr(self.function, '__qualname__', self.function)}, idempotent={self.repeatable})"

    def when_repeated(self) -> str:
        """The ledger's word is all that is known of it."""
        return "the function is called again, with epochs from 0 on, for events that are read again"

    def last_commit(self) -> LastCommit | None:
        """Nobody knows: hence `remembers` is False, and the ledger's word counts."""
        return None

    def begin(self, context: EpochContext) -> None:
        """Nothing to open."""

    def write(self, context: EpochContext, rows: DataFrame) -> Outcome | None:
        """The function does it, visible at once."""
        self.function(rows, context.epoch)
        return None

    def pre_commit(self, context: EpochContext, outcome: Outcome) -> Committable:  # noqa: ARG002 - the contract
        """It is done already."""
        return {"version": 1}

    def commit(self, context: EpochContext, committable: Committable) -> None:
        """It is done already."""

    def abort(self, context: EpochContext) -> None:
        """The epoch is redone, with the same rows; that is why it must be idempotent."""
