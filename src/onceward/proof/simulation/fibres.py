"""Several drivers in one process, of which exactly one runs, until it gives way itself.

Production code is synchronous, so that each driver needs a stack of its own: a greenlet where that package is
installed, else a thread that waits for its turn. Both give the same schedules; greenlets switch thirty times faster.
"""

import importlib
import threading
from collections.abc import Callable
from typing import Any, Protocol

try:
    greenlet: Any = importlib.import_module("greenlet")
except ImportError:  # the extra `proof` brings it
    greenlet = None


class Killed(BaseException):
    """Thrown into a driver that dies. Not an Exception: production code must not survive it."""


class Fibre(Protocol):
    """A stack of its own."""

    alive: bool

    def resume(self) -> None:
        """Run it until it gives way or ends; called from outside."""

    def give_way(self) -> None:
        """Let the caller of `resume` go on; called from inside."""

    def kill(self) -> None:
        """Unwind it, from outside."""


class GreenFibre:
    """A driver on a greenlet."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._outside: Any = None
        self._inside = greenlet.greenlet(self._run)
        self._body = body
        self.alive = True

    def _run(self) -> None:
        try:
            self._body()
        except Killed:
            pass
        finally:
            self.alive = False

    def resume(self) -> None:
        """Run it until it gives way or ends."""
        # Set here: whoever made the fibre may be another fibre.
        self._outside = self._inside.parent = greenlet.getcurrent()
        self._inside.switch()

    def give_way(self) -> None:
        """Let the caller of `resume` go on."""
        self._outside.switch()

    def kill(self) -> None:
        if self._inside:  # it has begun and not ended
            self._inside.parent = greenlet.getcurrent()
            self._inside.throw(Killed())
        self.alive = False


class ThreadFibre:
    """On a thread that waits for its turn."""

    def __init__(self, body: Callable[[], None]) -> None:
        self._mine, self._theirs = threading.Lock(), threading.Lock()
        self._mine.acquire()
        self._theirs.acquire()
        self._body = body
        self._thread: threading.Thread | None = None
        self._doomed = False
        self._failure: BaseException | None = None
        self.alive = True

    def _run(self) -> None:
        self._mine.acquire()
        try:
            self._body()
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - raised where `resume` was called
            self._failure = error
        finally:
            self.alive = False
            self._theirs.release()

    def resume(self) -> None:
        """Run it until it gives way or ends."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, daemon=True)
            self._thread.start()
        self._mine.release()
        self._theirs.acquire()
        if self._failure is not None:
            raise self._failure

    def give_way(self) -> None:
        """Let the caller of `resume` go on."""
        self._theirs.release()
        self._mine.acquire()
        if self._doomed:
            raise Killed

    def kill(self) -> None:
        if self._thread is not None and self.alive:
            self._doomed = True
            self.resume()
        self.alive = False


def fibre(body: Callable[[], None]) -> Any:
    """The quickest kind there is."""
    return GreenFibre(body) if greenlet is not None else ThreadFibre(body)
