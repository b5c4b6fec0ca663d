"""Cases in which the process ends, or stands still, at any line of the sink's own code.

A crash between two steps finds a sink at rest. These find it at work: with the marker written and the data not yet,
with half of the files moved. A crash unwinds the stack, so that connections close as they do when a process dies.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from functools import partial
from typing import Final

from onceward.testing.interruption import DEADLINE_S, Paused, Place, crash, lines_of
from onceward.testing.rehearsal import Prepared, Process, Rehearsal, difference

PLACES: Final = 12  # of a step's lines, where it has more
PATIENCE_S: Final = 1.0  # a paused process may hold a lock; then its successor waits, as it should
ROWS: Final = 40
NEVER: Final = range(1_000_000, 1_000_000 + ROWS)  # rows of a try that must never be seen


class Anywhere:
    """The process ends or stands still at any line."""

    def test_a_crash_anywhere_before_the_decision_leaves_nothing(self, rehearsal: Rehearsal) -> None:
        """Requirement B4."""
        process = rehearsal.start()
        process.run(0, _ids(0))
        places = _lines(process, partial(process.prepare, 1, NEVER))
        heir = rehearsal.start()
        for place in places:
            heir.abort(1)
            rehearsal.expect_nothing_staged("after abort()")
            process = rehearsal.start()
            crash(process.sink, place, partial(process.prepare, 1, NEVER))
            rehearsal.expect_visible(_ids(0), when=f"after a crash at {_said(place)}")
            heir = rehearsal.start()
            heir.abort(1)
            rehearsal.expect_nothing_staged(f"after a crash at {_said(place)}, and abort() by the next process")
        heir.run(1, _ids(1))
        rehearsal.expect_visible(_ids(0), _ids(1), when="after the epoch was redone")

    def test_a_crash_anywhere_in_the_commit_is_made_good(self, rehearsal: Rehearsal) -> None:
        """Requirement B5: the next process commits what was decided, whatever the last one had done of it."""
        process = rehearsal.start()
        process.run(0, _ids(0))
        prepared = process.prepare(1, _ids(1), input_rows=None)
        places = _lines(process, partial(process.publish, prepared))
        for epoch, place in enumerate(places, start=2):
            process = rehearsal.start()
            prepared = process.prepare(epoch, _ids(epoch), input_rows=None)
            crash(process.sink, place, partial(process.publish, prepared))
            heir = rehearsal.start()
            heir.finish(prepared)
            expected = [_ids(each) for each in range(epoch + 1)]
            rehearsal.expect_visible(*expected, when=f"after a crash at {_said(place)}, and commit() by the next one")
            heir.abort(epoch + 1)
            rehearsal.expect_nothing_staged(f"after a crash at {_said(place)}, commit() and abort() of what follows")
            rehearsal.start().expect_last_commit(epoch, f"after a crash at {_said(place)} and commit()")

    def test_a_crash_anywhere_in_the_abort_is_made_good(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        process.run(0, _ids(0))
        process.prepare(1, NEVER, input_rows=None)
        for place in _lines(process, partial(process.abort, 1)):
            process = rehearsal.start()
            process.abort(1)
            process.prepare(1, NEVER, input_rows=None)
            crash(process.sink, place, partial(process.abort, 1))
            rehearsal.start().abort(1)
            rehearsal.expect_visible(_ids(0), when=f"after a crash at {_said(place)}, and another abort()")
            rehearsal.expect_nothing_staged(f"after a crash at {_said(place)}, and another abort()")

    def test_a_driver_paused_anywhere_in_its_commit_adds_nothing_when_it_wakes(self, rehearsal: Rehearsal) -> None:
        """Requirements A7, C6: it is replaced while it stands still; readers see all or nothing all the time."""
        zombie = rehearsal.start()
        zombie.run(0, _ids(0))
        prepared = zombie.prepare(1, _ids(1), input_rows=None)
        places = _lines(zombie, partial(zombie.publish, prepared))
        for epoch, place in enumerate(places, start=2):
            zombie = rehearsal.start()
            prepared = zombie.prepare(epoch, _ids(epoch), input_rows=None)
            paused = Paused(zombie.sink, place, partial(zombie.publish, prepared))
            before = [id_ for each in range(epoch) for id_ in _ids(each)]
            after = [*before, *_ids(epoch)]
            try:
                seen = rehearsal.under_test.visible()
                problem = difference(after if len(seen) > len(before) else before, seen)
                assert not problem, f"a driver stands still at {_said(place)}, and a reader sees a part: {problem}"
                heir = _replace(rehearsal, prepared, paused)
            finally:
                paused.wake()
            rehearsal.expect_visible(after, when=f"after a pause at {_said(place)}")
            heir.abort(epoch + 1)
            rehearsal.expect_nothing_staged(f"after a pause at {_said(place)}, and the successor's next abort()")
            rehearsal.start().expect_last_commit(epoch, f"after a pause at {_said(place)}")


def _replace(rehearsal: Rehearsal, prepared: Prepared, paused: Paused) -> Process:
    """A successor finishes the epoch; if it has to wait for the paused one, that one is woken."""

    def take_over() -> Process:
        heir = rehearsal.start()
        heir.finish(prepared)
        return heir

    with ThreadPoolExecutor(1) as thread:
        answer: Future[Process] = thread.submit(take_over)
        try:
            return answer.result(PATIENCE_S)
        except NotYet:
            paused.wake()
            return answer.result(DEADLINE_S)


def _lines(process: Process, call: Callable[[], object]) -> list[Place]:
    return lines_of(process.sink, call, PLACES)


def _ids(epoch: int) -> range:
    return range(ROWS * epoch, ROWS * (epoch + 1))


def _said(place: Place) -> str:
    file, line = place
    return f"{file.rsplit('/', 1)[-1]}:{line}"
