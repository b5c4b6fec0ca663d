"""What an epoch and a start need of the process around them (`onceward.epoch.ports`), in a simulated world."""

from collections import deque
from collections.abc import Callable

from onceward.epoch.term import Holder, Term
from onceward.proof.simulation.world import GONE, Driver, World


class Beside:
    """`onceward.epoch.ports.Background`: at once, or not before somebody waits for it."""

    def __init__(self, *, lags: bool) -> None:
        self._lags = lags
        self._waiting: deque[Work] = deque()

    def submit(self, work: Callable[[], None]) -> "Work":
        made = Work(work, self)
        self._waiting.append(made)
        if not self._lags:
            self.catch_up(made)
        return made

    def close(self) -> None:
        while self._waiting:
            self._waiting.popleft().carry_out()

    def catch_up(self, work: "Work") -> None:
        """One after the other, up to this one."""
        while not work.over:
            self._waiting.popleft().carry_out()


class Work:
    """Something to be done beside the epoch."""

    def __init__(self, work: Callable[[], None], beside: Beside) -> None:
        self._work, self._beside = work, beside
        self.over = False
        self._error: Exception | None = None

    def carry_out(self) -> None:
        self.over = True
        try:
            self._work()
        except Exception as error:  # noqa: BLE001 - raised by `result`
            self._error = error

    def result(self) -> None:
        self._beside.catch_up(self)
        if self._error is not None:
            raise self._error


class Kept:
    """A lease: nobody waits for it. Whoever is dead lets nothing go."""

    def __init__(self, driver: Driver, term: Term) -> None:
        self._driver, self._term = driver, term
        driver.term = term.number

    def release(self) -> None:
        if self._driver.state is not GONE:
            self._term.release()


class Asked:
    """`onceward.epoch.ports.Stop`: whether somebody has asked this driver."""

    def __init__(self, world: World, driver: Driver) -> None:
        self._world, self._driver = world, driver

    def is_set(self) -> bool:
        return self._driver.stopping

    def wait(self, timeout: float) -> None:
        self._world.sleep(timeout)


def holder_of(pipeline: str, number: int, term: int) -> Holder:
    """A process of a simulated machine: there are two of them."""
    machine = f"machine {number % 2}"
    return Holder(term=term, pipeline=pipeline, host=machine, machine=machine, pid=number, process_start="", since="")
