"""Cases in which a step is asked again: harmless, says the contract."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Final

from onceward.errors import SinkUnreachable
from onceward.testing.rehearsal import Prepared, Process, Rehearsal

REPEATS: Final = 10
DEADLINE_S: Final = 60.0


class Repeats:
    """A step is asked again."""

    def test_a_commit_may_be_repeated(self, rehearsal: Rehearsal) -> None:
        """Requirement B7."""
        process = rehearsal.start()
        process.run(0, range(10))
        prepared = process.run(1, range(10, 20))
        for time in ("second", "third"):
            process.commit(prepared)
            rehearsal.expect_visible(range(20), when=f"after the {time} commit()")
        rehearsal.expect_nothing_staged("after three commits")

    def test_a_commit_may_be_repeated_by_other_processes(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        prepared = process.run(0, range(10))
        for _ in range(2):
            heir = rehearsal.start()
            heir.commit(prepared)
            heir.commit(prepared)
            process.commit(prepared)
            rehearsal.expect_visible(range(10), when="after commits by the old and the new process")
            heir.expect_last_commit(0)
        rehearsal.expect_nothing_staged("after commits by three processes")

    def test_commits_at_the_same_time_add_the_epoch_once(self, rehearsal: Rehearsal) -> None:
        """A paused driver wakes while its successor commits the same epoch."""
        expected = 0
        for epoch in range(3):
            zombie = rehearsal.start()
            ids = range(expected, expected + 50)
            prepared = zombie.prepare(epoch, ids, input_rows=None)
            zombie.decide(prepared)
            heir = rehearsal.start()
            _at_once(prepared, heir, zombie)
            expected += 50
            rehearsal.expect_visible(range(expected), when="after two commits at the same time")
            rehearsal.expect_nothing_staged("after two commits at the same time")
            rehearsal.start().expect_last_commit(epoch)

    def test_an_abort_may_be_repeated(self, rehearsal: Rehearsal) -> None:
        """Requirement B7."""
        process = rehearsal.start()
        process.run(0, range(10))
        process.prepare(1, range(90, 100))
        heir = rehearsal.start()
        for _ in range(3):
            heir.abort(1)
            rehearsal.expect_visible(range(10), when="after abort()")
            rehearsal.expect_nothing_staged("after abort()")
        rehearsal.start().abort(1)
        rehearsal.expect_nothing_staged("after abort() by another process")

    def test_an_abort_of_nothing_is_harmless(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        process.abort(0)
        rehearsal.expect_nothing_staged("after abort() of nothing")
        process.run(0, range(10))
        process.abort(1)
        rehearsal.expect_visible(range(10), when="after abort() of nothing")

    def test_an_abort_never_takes_what_is_committed(self, rehearsal: Rehearsal) -> None:
        process = rehearsal.start()
        for epoch in range(3):
            process.run(epoch, range(10 * epoch, 10 * epoch + 10))
        for aborting in (process, rehearsal.start()):
            for epoch in (3, 2, 1, 0):
                aborting.abort(epoch)
                rehearsal.expect_visible(range(30), when=f"after abort({epoch}), with epochs 0 to 2 committed")
        rehearsal.start().expect_last_commit(2)


def _at_once(prepared: Prepared, heir: Process, zombie: Process) -> None:
    barrier = Barrier(2)

    def commit(process: Process) -> None:
        barrier.wait(DEADLINE_S)
        for _ in range(REPEATS):
            try:
                return process.commit(prepared)
            except SinkUnreachable:  # the pipeline asks again, too
                continue
        return process.commit(prepared)

    with ThreadPoolExecutor(2) as threads:
        asked = [threads.submit(commit, process) for process in (heir, zombie)]
    for answer in asked:
        answer.result()
