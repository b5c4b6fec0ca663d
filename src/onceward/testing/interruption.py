"""Stops a sink at a chosen line of its own code: for good, as a crash does, or until woken, as SIGSTOP does."""

import gc
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

from onceward.epoch.contract import TwoPhaseCommitSink

DEADLINE_S: Final = 60.0

Place = tuple[str, int]  # a file and a line in it


class Crash(BaseException):
    """The process ends here. No `except Exception` of a sink may survive it."""


def lines_of(sink: TwoPhaseCommitSink, call: Callable[[], object], at_most: int) -> list[Place]:
    """The lines of the sink's own code that a call runs through, in order; evenly thinned out where they are many."""
    seen: dict[Place, None] = {}
    with _watching(sink, seen.setdefault):
        call()
    places = list(seen)
    step = max(1.0, len(places) / at_most)
    return [places[int(number * step)] for number in range(int(len(places) / step))]


def crash(sink: TwoPhaseCommitSink, place: Place, call: Callable[[], object]) -> bool:
    """Run until that line is about to run, and no further. False: the call ended without coming by."""

    def arrive(at: Place) -> None:
        if at == place:
            raise Crash

    with warnings.catch_warnings():
        # Who dies closes nothing, and Python would complain of it in some later test.
        warnings.simplefilter("ignore", ResourceWarning)
        try:
            with _watching(sink, arrive):
                call()
        except Crash:
            reached = True
        else:
            reached = False
        gc.collect()
    return reached


class Paused:
    """A call in a thread of its own, which stands still before a line until it is woken."""

    def __init__(self, sink: TwoPhaseCommitSink, place: Place, call: Callable[[], object]) -> None:
        self.error: BaseException | None = None
        self._sink, self._place, self._call = sink, place, call
        self._still, self._awake = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="paused sink", daemon=True)
        self._thread.start()
        assert self._still.wait(DEADLINE_S), f"{place} was neither reached nor passed within {DEADLINE_S:.0f} s"

    def wake(self) -> None:
        """Let it go on to its end; what it raised is in `error`."""
        self._awake.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"after a pause at {self._place} the sink hangs"

    def _run(self) -> None:
        try:
            with _watching(self._sink, self._arrive):
                self._call()
        except BaseException as error:  # noqa: BLE001 - the test judges it, whatever it is
            self.error = error
        finally:
            self._still.set()

    def _arrive(self, place: Place) -> None:
        if place == self._place:
            self._still.set()
            self._awake.wait()


@contextmanager
def _watching(sink: TwoPhaseCommitSink, arrive: Callable[[Place], object]) -> Iterator[None]:
    """Tell, before each line of the sink's own code that this thread runs, which line it is."""
    prefixes = _own_code(sink)

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        return at_line if frame.f_code.co_filename.startswith(prefixes) else None

    def at_line(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            arrive((frame.f_code.co_filename, frame.f_lineno))
        return at_line

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)


def _own_code(sink: TwoPhaseCommitSink) -> tuple[str, ...]:
    """Where the sink's class and its bases are written: their packages, or their files if they have no package."""
    return tuple(_place_of(kind) for kind in _kinds(sink))


def _kinds(sink: TwoPhaseCommitSink) -> Sequence[type]:
    kinds = [kind for kind in type(sink).__mro__ if issubclass(kind, TwoPhaseCommitSink)]
    return [kind for kind in kinds if not kind.__module__.startswith("onceward.epoch.")]


def _place_of(kind: type) -> str:
    file = Path(sys.modules[kind.__module__].__file__ or "")
    return f"{file.parent}/" if (file.parent / "__init__.py").exists() else str(file)
