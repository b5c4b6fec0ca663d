"""Asking a driver to stop through its home: by a file that names its term, answered by its lease."""

from collections.abc import Callable
from pathlib import Path

import pytest

from onceward.epoch import stop_request, term
from onceward.epoch.home import Home
from onceward.epoch.stop_request import StopRequest, asked, stopped
from onceward.epoch.storage import LocalStorage
from onceward.epoch.term import Holder, Term
from onceward.errors import HomeInUse
from support.clocks import MONOTONIC


class Clock:
    """Time passes while somebody sleeps, and something happens then."""

    def __init__(self, happens: Callable[[float], None] = lambda _: None) -> None:
        self.time, self._happens = MONOTONIC, happens

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        self._happens(self.time - MONOTONIC)


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


def holder(number: int) -> Holder:
    return Holder(
        term=number, pipeline="p", host="h", machine="m", pid=number, process_start="1", since="2026-01-02T03:04:05"
    )


def start(storage: LocalStorage) -> Term:
    return term.acquire(
        storage, holder, is_gone=lambda _: False, clock=lambda: MONOTONIC, sleep=lambda _: None, take_over=True
    )


def stop(storage: LocalStorage, clock: Clock, *, dead: bool = False) -> Holder | None:
    with stopped(
        Home(storage, "/srv/orders", "/srv/orders"),
        by="a test",
        now=lambda: "now",
        is_gone=lambda _: dead,
        clock=clock,
        sleep=clock.sleep,
        patience_s=60,
    ) as holder:
        assert requests(storage) == ([f"stop-{holder.term:06d}.json"] if holder is not None else [])
        return holder


def requests(storage: LocalStorage) -> list[str]:
    return storage.names(stop_request.FOLDER)


def test_a_driver_that_lets_go_has_stopped(storage: LocalStorage) -> None:
    """E6: it renews its lease until its epoch is over, however long that takes."""
    driver = start(storage)

    def happens(after: float) -> None:
        assert asked(storage, driver.number) == StopRequest(term=1, by="a test", at="now")
        driver.release() if after > 30 else driver.renew()

    assert stop(storage, Clock(happens)) == driver.holder
    assert requests(storage) == []


def test_nobody_who_runs_is_nobody_to_ask(storage: LocalStorage) -> None:
    """E6."""
    assert stop(storage, Clock()) is None
    driver = start(storage)
    assert stop(storage, Clock(), dead=True) is None
    driver.release()
    assert stop(storage, Clock()) is None
    assert requests(storage) == []


def test_a_driver_whose_lease_stands_still_has_not_stopped(storage: LocalStorage) -> None:
    """E6: it may be paused, and would go on after the savepoint that was to be its last."""
    start(storage)
    clock = Clock()
    with pytest.raises(
        HomeInUse,
        match=r"home /srv/orders of pipeline 'p': .*its lease stands still: it is paused",
    ):
        stop(storage, clock)
    assert clock.time - MONOTONIC == pytest.approx(term.LEASE_S, abs=0.2)
    assert requests(storage) == []


def test_a_driver_that_dies_before_it_lets_go_has_not_stopped_in_order(storage: LocalStorage) -> None:
    """E6: nobody has stopped it, and nothing of it goes on."""
    start(storage)
    clock = Clock()
    with stopped(
        Home(storage, "h", "h"), by="a test", now=lambda: "now", is_gone=lambda _: clock.time - MONOTONIC > 2,
        clock=clock, sleep=clock.sleep, patience_s=60,
    ) as found:  # fmt: skip
        assert found is None
    assert requests(storage) == []


def test_a_driver_that_goes_on_is_told_of_and_the_request_is_withdrawn(storage: LocalStorage) -> None:
    """E6: otherwise it would stop when nobody expects it any more."""
    driver = start(storage)
    with pytest.raises(HomeInUse, match=r"home /srv/orders of pipeline 'p': process 1 on h.* has not within 60 s"):
        stop(storage, Clock(lambda _: driver.renew()))
    assert requests(storage) == []


def test_a_driver_that_takes_over_meanwhile_was_not_asked(storage: LocalStorage) -> None:
    """E6: a request is for one term."""
    start(storage)

    def happens(after: float) -> None:
        if 1 < after < 1.1:
            start(storage)

    with pytest.raises(HomeInUse, match=r"home /srv/orders of pipeline 'p': .*was not asked to stop"):
        stop(storage, Clock(happens))
    assert asked(storage, 2) is None


def test_a_request_that_was_torn_is_none(storage: LocalStorage) -> None:
    """E9."""
    storage.replace("requests/stop-000001.json", b"{")
    assert asked(storage, 1) is None
