"""What went wrong with an epoch so far, and whether it is tried once more."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from onceward.epoch.patience import Patience, passes
from onceward.errors import EpochFailed
from onceward.events import logger

ATTEMPTS: Final = 6
BACK_OFF_S: Final = (0.0, 0.2, 1.0, 3.0, 5.0)  # the first retry at once: most failures are a lost task or worker

log = logger("onceward.epoch")


def line_of(error: Exception) -> str:
    """The error's first line, and of a Java exception also the last cause, since its first line says nothing."""
    lines = str(error).strip().splitlines()
    causes = [line.strip() for line in lines if line.startswith("Caused by: ")]
    return f"{type(error).__name__}: {' '.join([*lines[:1], *causes[-1:]])}"[:500]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """How failures are judged. `own`: what tells a failure of the user's own code from another; None: it is none."""

    is_final: Callable[[Exception], bool]
    own: Callable[[Exception], Hashable | None] = lambda _: None
    describe: Callable[[Exception], str] = line_of


@dataclass(slots=True)
class Tries:
    """Of one epoch. What only was out of reach is waited for; anything else may fail `ATTEMPTS` times."""

    epoch: int
    judging: Judging
    sleep: Callable[[float], object]
    patience: Patience | None = None
    causes: list[str] = field(default_factory=list)
    _own: Hashable | None = None

    def failed(self, error: Exception, began: float, *, away: Exception | None = None) -> None:
        """The try that began then is over: pause before the next one, or raise. `away`: why it is not aborted yet."""
        own = self.judging.own(error)
        if self.judging.is_final(error) or (own is not None and own == self._own):
            raise error  # the user's own code fails twice in the same way: it would a third time
        self._own = own
        if self.patience is not None and (away is not None or passes(error)):
            self.patience.wait(away if away is not None else error, began)
            return
        self.again(self.judging.describe(error), error)

    def again(self, cause: str, error: Exception | None = None) -> None:
        """It counts: pause, or raise `EpochFailed` after the last."""
        self.causes.append(cause)
        if len(self.causes) >= ATTEMPTS:
            raise EpochFailed(self._failure()) from error
        log.warning(
            "epoch %d, try %d was aborted and is redone: %s", self.epoch, len(self.causes), cause,
            extra={"event": "try_aborted", "epoch": self.epoch, "try": len(self.causes), "reason": cause},
        )  # fmt: skip
        self.sleep(BACK_OFF_S[min(len(self.causes), len(BACK_OFF_S)) - 1])

    def _failure(self) -> str:
        """Every cause, and one that came again only once."""
        told, number = [], 1
        for cause, same in groupby(self.causes):
            last = number + len(list(same)) - 1
            told.append(f"{f'try {number}' if last == number else f'tries {number} to {last}'}: {cause}")
            number = last + 1
        return (
            f"epoch {self.epoch} was aborted {len(self.causes)} times, nothing of it is visible and nothing is lost. "
            f"{'; '.join(told)}"
        )
