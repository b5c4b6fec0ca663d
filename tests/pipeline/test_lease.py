"""The thread that keeps a lease: what it does between renewals, and that a passing error does not end it."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from onceward.epoch import stop_request
from onceward.epoch.sealed import seal
from onceward.epoch.stop_request import StopRequest
from onceward.epoch.storage import LocalStorage
from onceward.epoch.term import LEASE_S, POLL_S, RENEW_S, Holder, Term, Watcher, acquire
from onceward.pipeline import lease
from onceward.pipeline.lease import LeaseKeeper
from support.clocks import MONOTONIC
from support.waiting import eventually

SOON_S = 10.0


class Shaky(LocalStorage):
    """A disk that fails as often as is said, in one kind of call."""

    failing: dict[str, int]

    def fails(self, call: str) -> None:
        if self.failing.get(call, 0) > 0:
            self.failing[call] -= 1
            raise OSError(5, "Input/output error")

    def replace(self, name: str, data: bytes, *, sync: bool = True) -> None:
        self.fails("replace")
        super().replace(name, data, sync=sync)

    def read(self, name: str) -> bytes | None:
        self.fails("read")
        return super().read(name)


@pytest.fixture
def storage(tmp_path: Path) -> Shaky:
    made = Shaky(tmp_path)
    made.failing = {}
    return made


def claim(storage: LocalStorage) -> Term:
    def holder(number: int) -> Holder:
        return Holder(term=number, pipeline="p", host="h", machine="m", pid=1, process_start="1", since="noon")

    return acquire(
        storage, holder, is_gone=lambda _: False, clock=lambda: MONOTONIC, sleep=lambda _: None, take_over=True
    )


@pytest.fixture
def term(storage: Shaky) -> Term:
    return claim(storage)


@pytest.fixture
def keeper(term: Term, monkeypatch: pytest.MonkeyPatch) -> Iterator[LeaseKeeper]:
    """It renews a hundred times as often as in earnest."""
    monkeypatch.setattr(lease, "RENEW_S", RENEW_S / 100)
    made = LeaseKeeper(term)
    yield made
    made.release()


class Told:
    """What the keeper tells, and how often."""

    def __init__(self, keeper: LeaseKeeper) -> None:
        self.fenced: list[Exception] = []
        self.requests: list[StopRequest] = []
        self.beside = 0
        self.needed = True
        keeper.keep_while(
            lambda: self.needed, overtaken=self.fenced.append, asked_to_stop=self.requests.append, beside=self.work
        )

    def work(self) -> None:
        self.beside += 1


def renewed(term: Term) -> int:
    """How often, as an observer sees it."""
    watcher = Watcher(term.storage, lambda _: False, time.monotonic)
    watcher.vacant()
    assert watcher._seen is not None
    return watcher._seen[1]


def await_renewals(term: Term, more: int = 3) -> None:
    least = term.count + more
    eventually(lambda: term.count >= least, f"{more} renewals", SOON_S)


def test_several_renewals_fit_into_a_lease_and_several_looks_into_a_renewal() -> None:
    """One that is late, or fails, costs nobody the home; and whoever waits sees every one of them."""
    assert 4 * RENEW_S < LEASE_S <= 10 * RENEW_S
    assert 3 * POLL_S < RENEW_S


def test_the_pause_between_two_renewals_is_what_it_says(term: Term, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float | None] = []

    class Event(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return super().wait(POLL_S / 10)

    named = SimpleNamespace(Event=Event, Thread=threading.Thread, current_thread=threading.current_thread)
    monkeypatch.setattr(lease, "threading", named)
    keeper = LeaseKeeper(term)
    await_renewals(term)
    keeper.release()
    assert set(pauses) == {RENEW_S}
    assert len(pauses) >= 3


@pytest.mark.parametrize("call", ["replace", "read"])
def test_an_error_of_the_disk_is_told_and_the_next_renewal_is_tried(
    storage: Shaky, term: Term, keeper: LeaseKeeper, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    """I4: a passing outage of the home's disk ends no lease."""
    told = Told(keeper)
    storage.failing = {call: 3}
    await_renewals(term, 8)
    assert storage.failing == {call: 0}
    assert renewed(term) > 0
    assert caplog.text.count("could not be renewed and is tried again: [Errno 5]") == 3
    assert (told.fenced, told.requests) == ([], [])


def test_an_error_of_what_is_done_beside_is_told_and_nothing_else_suffers(
    term: Term, keeper: LeaseKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """The marker's renewal is done beside: Kafka may be away."""
    told = Told(keeper)

    def fails() -> None:
        raise OSError(101, "Network is unreachable")

    keeper._beside = fails
    await_renewals(term)
    assert "Network is unreachable" in caplog.text
    keeper._beside = told.work
    eventually(lambda: told.beside > 0, "work beside", SOON_S)


def test_a_request_to_stop_is_seen_after_an_error_and_told_once(
    storage: Shaky, term: Term, keeper: LeaseKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(keeper)
    storage.failing = {"read": 2}
    asked = StopRequest(term=term.number, by="a test", at="now")
    storage.replace(f"{stop_request.FOLDER}/stop-{term.number:06d}.json", seal(asked))
    eventually(lambda: bool(told.requests), "the request", SOON_S)
    await_renewals(term)
    assert [it.by for it in told.requests] == ["a test"]
    assert "Errno 5" in caplog.text


def test_whoever_is_overtaken_is_told_once_and_renews_no_more(storage: Shaky, term: Term, keeper: LeaseKeeper) -> None:
    """C6."""
    told = Told(keeper)
    claim(storage)
    eventually(lambda: bool(told.fenced), "the news", SOON_S)
    keeper._thread.join(SOON_S)
    assert not keeper._thread.is_alive()
    assert len(told.fenced) == 1
    assert told.requests == []


def test_a_query_that_has_ended_frees_its_home_though_nobody_asks(term: Term, keeper: LeaseKeeper) -> None:
    told = Told(keeper)
    await_renewals(term, 1)
    told.needed = False
    watcher = Watcher(term.storage, lambda _: False, lambda: MONOTONIC)
    eventually(watcher.vacant, "the home is free", SOON_S)


def test_a_lease_that_cannot_be_given_back_is_told_and_hides_nothing(
    storage: Shaky, term: Term, keeper: LeaseKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """Why the pipeline ended is the news, and the next start waits a lease at most."""
    keeper._over.set()
    keeper._thread.join()
    storage.failing = {"replace": 1}
    keeper.release()
    assert f"the lease of term {term.number} could not be given back" in caplog.text


def test_it_may_be_let_go_of_from_its_own_thread(storage: Shaky, keeper: LeaseKeeper) -> None:
    """Whoever is told may end the query, which lets go: nobody waits for himself."""
    done = threading.Event()

    def end(*_: Any) -> None:
        keeper.release()
        done.set()

    keeper.keep_while(lambda: True, overtaken=end, asked_to_stop=end, beside=lambda: None)
    claim(storage)
    assert done.wait(SOON_S)
