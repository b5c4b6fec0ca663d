"""An observer that talks to a server does so from a thread of its own: no epoch waits for it, whatever it does."""

import queue
import threading
from collections.abc import Callable
from typing import Final

from onceward.epoch.ledger import Entry
from onceward.epoch.observing import AbortedTry, Course, Observer, blame
from onceward.events import logger

ROOM: Final = 1000  # epochs that wait for a slow server; what comes then is left out
END_S: Final = 5.0  # how long the end of a pipeline waits for what is still to be told

log = logger("onceward.telemetry")


class Beside(Observer):
    """Hands everything on, in order. What the other raises is said once."""

    def __init__(self, observer: Observer, room: int = ROOM) -> None:
        self._observer = observer
        self._name = type(observer).__name__
        self._todo: queue.Queue[Callable[[], None] | None] = queue.Queue(room)
        self._blamed = self._left_out = False
        self._thread = threading.Thread(target=self._work, name=f"onceward-{self._name.lower()}", daemon=True)
        self._thread.start()

    def started(self) -> None:
        """Later."""
        self._later(self._observer.started)

    def aborted(self, epoch: int, tried: AbortedTry) -> None:
        """Later."""
        self._later(lambda: self._observer.aborted(epoch, tried))

    def committed(self, entry: Entry, course: Course) -> None:
        """Later."""
        self._later(lambda: self._observer.committed(entry, course))

    def failed(self, epoch: int, course: Course | None, error: BaseException) -> None:
        """Later."""
        self._later(lambda: self._observer.failed(epoch, course, error))

    def ended(self, failure: BaseException | None) -> None:
        """Now, if it is quick: who hangs is left behind."""
        self._later(lambda: self._observer.ended(failure))
        self._later(None)
        self._thread.join(END_S)

    def _later(self, work: Callable[[], None] | None) -> None:
        try:
            self._todo.put_nowait(work)
        except queue.Full:
            if not self._left_out:
                self._left_out = True
                log.warning(
                    "%s cannot keep up: some of it is left out; the pipeline is not concerned", self._name,
                    extra={"event": "telemetry_left_out", "observer": self._name},
                )  # fmt: skip

    def _work(self) -> None:
        while (work := self._todo.get()) is not None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - what is observed is not data
                if not self._blamed:
                    self._blamed = True
                    blame(self._name, error)
