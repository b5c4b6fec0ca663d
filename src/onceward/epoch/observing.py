"""What those who look on are told while epochs run: each aborted try, each committed epoch, and the end.

Pure. Looking on changes nothing: what an observer raises is logged once, and the epoch goes on (`Onlookers`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from onceward.epoch.ledger import Entry
from onceward.events import logger

REMEMBERED: Final = 100  # aborted tries of one epoch: an outage may have very many
UNDECIDED: Final = "TransactionTimedOut"  # the cause of a try whose commit, as the sink proved, did not happen

log = logger("onceward.telemetry")


class Step(NamedTuple):
    """What one sink was asked for, and when, by the driver's clock in seconds."""

    name: str  # begin, write, pre_commit, decide, commit
    sink: str
    began: float
    ended: float


class Asked(NamedTuple):
    """What one sink is being asked for now, and since when."""

    name: str
    sink: str
    began: float


class AbortedTry(NamedTuple):
    """`cause` is the name of the error's class: there are few of them. `reason` is its text, in a line."""

    attempt: int
    cause: str
    reason: str
    at: float


class Course:
    """How an epoch goes, by the driver's clock: its last try step by step, and the tries that were aborted."""

    def __init__(self, epoch: int, began: float) -> None:
        self.epoch = epoch
        self.began = began
        self.tried = began  # when its last try began
        self.attempt = 0
        self.asked: Asked | None = None  # the step that is under way
        self.voted: float | None = None  # when every sink had voted: from here on it may be decided
        self.decided: float | None = None
        self.ended: float | None = None
        self.steps: list[Step] = []
        self.aborted: deque[AbortedTry] = deque(maxlen=REMEMBERED)

    def try_at(self, now: float) -> None:
        """Another try: of the last one's steps nothing is visible."""
        self.tried, self.voted, self.asked = now, None, None
        self.attempt += 1
        self.steps.clear()

    @property
    def in_doubt(self) -> bool:
        """Between the first moment at which it may be decided, and its being committed everywhere."""
        return self.voted is not None and self.ended is None


class Observer:
    """Looks on. It is called by the thread that runs the epoch, so it must not wait for anything."""

    def started(self) -> None:
        """The query runs."""

    def aborted(self, epoch: int, tried: AbortedTry) -> None:
        """A try of an epoch is over, and nothing of it is visible."""

    def committed(self, entry: Entry, course: Course) -> None:
        """An epoch is committed in every sink; called once for each."""

    def failed(self, epoch: int, course: Course | None, error: BaseException) -> None:
        """An epoch stops the query. No course: before its first try."""

    def ended(self, failure: BaseException | None) -> None:
        """The query is over; nothing follows."""


class Onlookers(Observer):
    """Several observers as one. One that raises disturbs neither the epoch nor the others."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self._observers = list(observers)
        self._blamed: set[Observer] = set()

    def started(self) -> None:
        """Tell all."""
        self._tell(lambda it: it.started())

    def aborted(self, epoch: int, tried: AbortedTry) -> None:
        """Tell all."""
        self._tell(lambda it: it.aborted(epoch, tried))

    def committed(self, entry: Entry, course: Course) -> None:
        """Tell all."""
        self._tell(lambda it: it.committed(entry, course))

    def failed(self, epoch: int, course: Course | None, error: BaseException) -> None:
        """Tell all."""
        self._tell(lambda it: it.failed(epoch, course, error))

    def ended(self, failure: BaseException | None) -> None:
        """Tell all."""
        self._tell(lambda it: it.ended(failure))

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                tell(observer)
            except Exception as error:  # noqa: BLE001 - what is observed is not data: the epoch goes on
                if observer not in self._blamed:
                    self._blamed.add(observer)
                    blame(type(observer).__name__, error)


def blame(observer: str, error: Exception) -> None:
    """Said once by whoever calls it; data is never concerned."""
    reason = f"{type(error).__name__}: {error}"
    log.warning(
        "%s failed, and goes on failing silently; the pipeline is not concerned: %s", observer, reason,
        extra={"event": "telemetry_failed", "observer": observer, "reason": reason},
    )  # fmt: skip
