"""Waiting for what is out of reach: for how long, what is said meanwhile, and what ends it.

Pure: clock and sleep are passed in, so that a stop is answered at once and the simulation waits too.
"""

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Final, TypeVar

from onceward.errors import (
    BrokerUnreachable,
    ConfigurationError,
    LookupUnreachable,
    OncewardError,
    OutageTooLong,
    SinkUnreachable,
)
from onceward.events import logger

DEFAULT: Final = "10min"  # a database's failover, a broker's or a machine's restart
FIRST_START_S: Final = 20.0  # of a home that has never run: an address that never answered is more likely wrong
UNREACHABLE: Final = (SinkUnreachable, BrokerUnreachable, LookupUnreachable)
FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
ASK_AGAIN_S: Final = (0.0, 0.2, 1.0, 3.0, 5.0)  # the last one until patience ends: a return is noticed soon
SAY_AGAIN_S: Final = 30.0
_UNITS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}

T = TypeVar("T")
log = logger("onceward.epoch")


@dataclass(frozen=True, slots=True)
class Waiting:
    """For what, why, and since when by the waiter's clock."""

    what: str
    reason: str
    since: float
    subject: str = ""  # `what` without a number in it: there are few of them

    def said(self, now: float) -> str:
        return f"waiting for {self.what}: {self.reason} ({now - self.since:.0f} s)"


def seconds(patience: str | float) -> float:
    """As a person says it: "10min", "90s", "1h", or seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|min|m|h)\s*", patience) if isinstance(patience, str) else None
    if match:
        return float(match[1]) * _UNITS[match[2]]
    if isinstance(patience, str | bool) or not 0 <= patience < float("inf"):
        raise ConfigurationError(f"patience {patience!r} is not known; give '10min', '90s', '1h' or seconds, 0 or more")
    return float(patience)


def passes(error: Exception) -> bool:
    """Whether waiting may cure it: something did not answer, or a disk is full."""
    return isinstance(error, UNREACHABLE) or (isinstance(error, OSError) and error.errno in FULL)


@contextmanager
def of_sink(name: str) -> Iterator[None]:
    """What is raised in here is about this sink."""
    try:
        yield
    except OncewardError as error:
        error.sink = error.sink or name
        raise


class Patience:
    """One started pipeline's. `keep_on` is asked after each pause, and raises to stop waiting."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        keep_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.seconds = seconds
        self.waiting: Waiting | None = None
        self.beside: Waiting | None = None  # what somebody else has found to be away meanwhile
        self.keep_on = keep_on
        self._clock = clock
        self._sleep = sleep
        self._times = 0
        self._said_at: dict[str, float] = {}  # by what is waited for

    @property
    def shown(self) -> Waiting | None:
        """For those who look on."""
        return self.waiting or self.beside

    def until(self, ask: Callable[[], T], what: str | None = None) -> T:
        """Repeat a question that may be repeated, until it is answered."""
        while True:
            began = self._clock()
            try:
                answer = ask()
            except Exception as error:
                if not passes(error):
                    raise
                self.wait(error, began, what)
            else:
                self.over()
                return answer

    def wait(self, error: Exception, began: float, what: str | None = None) -> None:
        """Pause before the next try of what failed, and began then; or `OutageTooLong`."""
        since = self.waiting.since if self.waiting is not None else began
        self.note(error, since, what)
        assert self.waiting is not None
        now = self._clock()
        if now - since >= self.seconds:
            told = self.waiting
            self._forget()  # and it is not said to be back
            raise OutageTooLong(
                f"{told.what} was waited for {_span(now - since)} (its patience is {_span(self.seconds)}): "
                f"{told.reason}. "
                "Nothing is lost, and nothing of the unfinished epoch is visible: start again when it is back, or "
                "wait longer: Pipeline(..., patience='1h')."
            ) from error
        pause = min(ASK_AGAIN_S[min(self._times, len(ASK_AGAIN_S) - 1)], since + self.seconds - now)
        self._times += 1
        self._sleep(pause)
        self.keep_on()

    def note(self, error: Exception, since: float, what: str | None = None) -> None:
        """Say that it is waited for, and again every now and then; reasons change with every step of a restart."""
        waiting = Waiting(what or _subject(error), _reason(error), since, _subject(error))
        now = self._clock()
        if now - self._said_at.get(waiting.what, now - SAY_AGAIN_S) >= SAY_AGAIN_S:
            self._said_at[waiting.what] = now
            log.warning(
                "%s", waiting.said(now),
                extra={
                    "event": "waiting", "what": waiting.subject, "reason": waiting.reason,
                    "seconds": round(now - since, 1),
                },
            )  # fmt: skip
        self.waiting = waiting

    def over(self) -> None:
        """It answers again."""
        if self.waiting is not None:
            took = self._clock() - self.waiting.since
            log.warning(
                "%s is back after %s", self.waiting.what, _span(took),
                extra={"event": "back", "what": self.waiting.subject, "seconds": round(took, 1)},
            )  # fmt: skip
        self._forget()

    def _forget(self) -> None:
        self.waiting = None
        self._times = 0
        self._said_at.clear()


@dataclass(frozen=True, slots=True)
class SinkOutage:
    """For a sink whose connections wait by themselves for a while: said as all other waiting is, and once."""

    patience: Patience
    sink: str

    def note(self, reason: str, since: float) -> None:
        """It does not answer, since then; what is away beside it most likely is the same."""
        if self.patience.beside is not None:
            return
        error = BrokerUnreachable(reason)
        error.sink = self.sink
        self.patience.note(error, since)

    def over(self) -> None:
        """It answers; something else may be waited for still."""
        waiting = self.patience.waiting
        if waiting is not None and waiting.subject == f"sink {self.sink!r}":
            self.patience.over()


def patiently(patience: Patience | None, sink: str | None, question: Callable[[], T]) -> T:
    """Ask a sink; without patience, once."""

    def ask() -> T:
        with of_sink(sink) if sink is not None else nullcontext():
            return question()

    return ask() if patience is None else patience.until(ask)


def _subject(error: Exception) -> str:
    sink = error.sink if isinstance(error, OncewardError) else None
    if sink is not None:
        return f"sink {sink!r}"
    if isinstance(error, LookupUnreachable):
        return "the lookup's database"
    if isinstance(error, OSError):
        return "room on the home's disk"
    return "Kafka" if isinstance(error, BrokerUnreachable) else "a sink"


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
