"""The lives of drivers, one after the other: each is started, struck, and ends as the nemesis wants it to."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from onceward.proof.chaos.driver import UNEXPLAINED, Driver
from onceward.proof.chaos.nemesis import IN_A_WORKER, Life
from onceward.proof.chaos.places import SPARK, Places, ProofFailed
from onceward.proof.chaos.seen import Seen
from onceward.proof.chaos.strikes import Striker
from onceward.proof.history import Ended

POLL_S: Final = 0.02
BETWEEN_STRIKES_S: Final = 20.0  # without an epoch in between: something is away, strike on
POINT_S: Final = 45.0  # within which a driver has to come to its point; else it dies where it is
STUCK_S: Final = 300.0  # far longer than any fault lasts, even on a busy machine
ORPHANS_S: Final = 3.0  # for a JVM to notice that its driver is gone
WAKE_AFTER_EPOCHS: Final = 2
ZOMBIE_S: Final = 180.0
HOPELESS: Final = 8  # a start may end by itself while a broker or the database is away, not so many in a row


@dataclass(slots=True)
class Lives:
    """Runs one driver at a time; two while one of them sleeps."""

    places: Places
    file: Path | None
    logs: Path
    seen: Seen
    striker: Striker
    enough: Callable[[], bool]
    shown: Callable[[], int]  # how many records a read_uncommitted reader has seen
    report: Callable[[str], None]
    _all: list[Driver] = field(default_factory=list)
    _shown_then: int = 0  # when the last epoch was finished
    _hopeless: int = 0  # drivers in a row that ended by themselves, without an epoch
    _epochs_then: int = -1

    def live(self, life: Life) -> None:
        """From a start to an end."""
        driver = self.start(life)
        strikes, last_strike, epochs = list(life.strikes), time.monotonic(), self.seen.epochs
        back_at: float | None = None
        while driver.alive and not self._over(driver, life, back_at, idle=not strikes):
            if self.seen.look():
                back_at = back_at or time.monotonic()
                self._shown_then = self.shown()
            late = time.monotonic() - last_strike > BETWEEN_STRIKES_S
            if strikes and (late or (self.seen.epochs > epochs and self.striker.strike(strikes[0], driver))):
                strikes = [] if self.enough() else strikes[1:]
                last_strike, epochs = time.monotonic(), self.seen.epochs
            time.sleep(POLL_S)
        if life.end == "sleep" and driver.alive:
            self._sleep(driver, life)
        else:
            self._end(driver, life)

    def start(self, life: Life, *, take_over: bool = False) -> Driver:
        """A driver beside nobody, or beside one that sleeps and is to be fenced at once."""
        driver = Driver(
            len(self._all) + 1,
            msgspec.structs.replace(self.places, over_tasks=life.over_tasks),
            self.file,
            self.logs,
            crash_at=f"{life.point}#{life.nth}" if life.point else "",
            asleep=life.end == "sleep",
            cluster=life.cluster,
            take_over=take_over,
        )
        self._all.append(driver)
        self.seen.note("start", f"driver {driver.number} started", "driver")
        return driver

    def ended(self, driver: Driver) -> None:
        """It ended by itself: its reason is for the judge."""
        how, says = driver.ended()
        self.seen.ended.append(Ended(driver.number, how, says))
        self.seen.note("end", f"driver {driver.number} ended: {how}", "driver")
        self._hopeless = 0 if self.seen.epochs > self._epochs_then else self._hopeless + 1
        self._epochs_then = self.seen.epochs
        if self._hopeless == HOPELESS or (how == UNEXPLAINED and self.seen.epochs < 0):
            raise ProofFailed(f"the job does not run: {self._hopeless} start(s) without an epoch. {driver.tail()}")

    def clear(self) -> None:
        """No process of any driver is left."""
        for driver in self._all:
            driver.clear()

    def _over(self, driver: Driver, life: Life, back_at: float | None, *, idle: bool) -> bool:
        """Whether it is time to do something to the driver."""
        if self.striker.failure is not None:
            raise ProofFailed(self.striker.failure)
        if life.point and life.point != IN_A_WORKER and driver.reached:
            return driver.asleep
        lived = time.monotonic() - driver.began
        if life.point and lived < POINT_S:
            return False
        if back_at is None and lived > STUCK_S:
            self.seen.stuck.append(f"driver {driver.number} has not committed an epoch within {STUCK_S:.0f} s")
            return True
        after_s = life.after_s if not life.point else 0.0
        if not idle or back_at is None or time.monotonic() - back_at < after_s:
            return False
        # Spark's own sink has no named points: it is killed when an epoch's first records are visible.
        return self.places.guarantee != SPARK or self.shown() > self._shown_then

    def _end(self, driver: Driver, life: Life) -> None:
        """It died at its point, by itself, or now."""
        self.seen.look()
        if life.point == IN_A_WORKER and driver.reached:
            self.seen.reached(life.point)
            self.seen.note("fault", f"worker killed at '{life.point}'", "worker", point=life.point, kill=True)
        if driver.alive:
            if life.point and not driver.reached:
                self.seen.unreached[life.point] += 1
            driver.kill()
            self._killed(driver, "at a random moment", "")
        elif driver.ended()[0] == "killed":
            self._killed(driver, f"at '{life.point}'", life.point)
        else:
            self.ended(driver)
        # The contrast gets no such grace: a JVM that lives on ends its epoch, and then nothing is doubled.
        until = time.monotonic() + (ORPHANS_S if life.orphans and self.places.guarantee != SPARK else 0)
        while time.monotonic() < until and driver.members:
            time.sleep(POLL_S)
        driver.clear()
        self.seen.read_closely()

    def _killed(self, driver: Driver, where: str, point: str) -> None:
        if point:
            self.seen.reached(point)
        self.seen.died_at = self.seen.now
        self.seen.note("fault", f"driver {driver.number} killed {where}", "driver", point=point, kill=True)
        self.seen.ended.append(Ended(driver.number, "killed"))
        self.report(f"{self.seen.now:6.0f} s  kill {self.seen.kills}: driver {driver.number} {where}")

    def _sleep(self, driver: Driver, life: Life) -> None:
        """It stops; a successor takes over beside it; after some epochs it wakes and has to find out."""
        point = life.point if driver.reached else ""
        if point:
            self.seen.reached(point)
        driver.pause()
        where = f"at '{point}'" if point else "at a random moment"
        self.seen.note("fault", f"driver {driver.number} paused {where}", "driver", point=point)
        self.report(f"{self.seen.now:6.0f} s  driver {driver.number} paused {where}, another takes over")
        self.seen.died_at = self.seen.now
        successor = self.start(Life(over_tasks=life.over_tasks), take_over=True)
        before = self.seen.epochs
        self._wait(ZOMBIE_S, lambda: self.seen.epochs >= before + WAKE_AFTER_EPOCHS or not successor.alive)
        driver.resume()
        slept = f"{self.seen.epochs - before} epochs later"
        self.seen.note("heal", f"driver {driver.number} wakes, {slept}", "driver")
        self._wait(ZOMBIE_S, lambda: not driver.alive)
        if driver.alive:
            self.seen.stuck.append(f"driver {driver.number} woke {slept} and did not stop within {ZOMBIE_S:.0f} s")
            self.seen.note("end", f"driver {driver.number} did not stop", "driver")
        else:
            self.ended(driver)
        driver.clear()
        self._end(successor, Life())

    def _wait(self, seconds: float, condition: Callable[[], bool]) -> None:
        until = time.monotonic() + seconds
        while not condition() and time.monotonic() < until:
            self.seen.look()
            time.sleep(POLL_S)
