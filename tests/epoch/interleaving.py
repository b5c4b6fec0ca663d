"""Several drivers on one storage, one call of it at a time, in an order that a test chooses or enumerates."""

import threading
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from onceward.epoch.decisions import FOLDER
from onceward.epoch.storage import Storage

Choose = Callable[[Sequence[int]], int]  # of those that could go on, whose turn it is


class Interleaved:
    """Actors in threads of their own, of which exactly one runs, up to its next storage call."""

    def __init__(self, choose: Choose) -> None:
        self._choose = choose
        self._turn = threading.Semaphore(0)  # given back by whoever ran
        self._waiting: dict[int, threading.Semaphore] = {}
        self.failures: list[BaseException] = []

    def run(self, actors: Sequence[Callable[["Stepped"], None]], storage: Storage) -> None:
        """Until all have ended; what they raised is raised here."""
        threads = []
        for number, actor in enumerate(actors):
            stepped = Stepped(storage, lambda number=number: self._pause(number))
            threads.append(threading.Thread(target=self._act, args=(number, actor, stepped), daemon=True))
            threads[-1].start()
            self._await_turn()
        while self._waiting:
            self._waiting.pop(self._choose(sorted(self._waiting))).release()
            self._await_turn()
        for thread in threads:
            thread.join(30)
        if self.failures:
            raise self.failures[0]

    def _act(self, number: int, actor: Callable[["Stepped"], None], storage: "Stepped") -> None:
        try:
            self._pause(number)
            actor(storage)
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self.failures.append(error)
        finally:
            self._turn.release()

    def _pause(self, number: int) -> None:
        mine = self._waiting[number] = threading.Semaphore(0)
        self._turn.release()
        assert mine.acquire(timeout=30), "the schedule stopped"

    def _await_turn(self) -> None:
        assert self._turn.acquire(timeout=30), "an actor neither ends nor asks for storage"


class Stepped:
    """A storage that lets others go first before each call that they could notice, or notice others by."""

    def __init__(self, storage: Storage, pause: Callable[[], None]) -> None:
        self._storage, self._pause = storage, pause

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._storage, name)

        def step(file: str, *arguments: Any, **options: Any) -> Any:
            # A claimed slot never changes, so that it makes no difference when it is read.
            if name != "sync" and (name, file.partition("/")[0]) != ("read", FOLDER):
                self._pause()
            return call(file, *arguments, **options)

        return step


def every_schedule() -> Iterator[Choose]:
    """One way to choose after the other, depth first, until there is no other."""
    first: list[int] = []
    while True:
        taken: list[tuple[int, int]] = []

        def choose(waiting: Sequence[int], taken: list[tuple[int, int]] = taken, first: list[int] = first) -> int:
            pick = first[len(taken)] if len(taken) < len(first) else 0
            taken.append((pick, len(waiting)))
            return waiting[pick]

        yield choose
        while taken and taken[-1][0] + 1 == taken[-1][1]:
            taken.pop()
        if not taken:
            return
        first = [pick for pick, _ in taken]
        first[-1] += 1


def with_long_pauses(random: Random) -> Choose:
    """One goes on for a while, then another one: each sleeps through many steps of the others now and then."""
    rank: dict[int, float] = {}

    def choose(waiting: Sequence[int]) -> int:
        for number in waiting:
            if number not in rank or random.random() < 0.05:
                rank[number] = random.random()
        return max(waiting, key=lambda number: rank[number])

    return choose
