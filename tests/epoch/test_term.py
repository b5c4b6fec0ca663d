"""Who may drive a home: terms and leases, with a clock that the test moves."""

import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from onceward import processes
from onceward.epoch.sealed import seal
from onceward.epoch.storage import LocalStorage
from onceward.epoch.term import (
    LEASE_S,
    POLL_S,
    WAIT_S,
    Beat,
    Holder,
    Term,
    acquire,
    boundaries,
    newest_holder,
)
from onceward.errors import HomeInUse, HomeMismatch, LedgerCorrupt, PipelineFenced
from onceward.holding import is_gone, this_process


def holder(number: int, name: str = "first") -> Holder:
    return Holder(
        term=number, pipeline="p", host=f"{name}-host", machine="m", pid=4711, process_start="1", since="noon"
    )


class Observer:
    """Somebody who wants the home. Its clock moves only while it sleeps; then the world moves too."""

    def __init__(self, storage: LocalStorage, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.storage, self.meanwhile = storage, meanwhile
        self.now = 1000.0  # an own clock: nobody else's starts there
        self.said: list[str] = []

    @property
    def waited(self) -> float:
        return self.now - 1000.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.meanwhile()

    def acquire(
        self, *, take_over: bool = False, dead: Callable[[Holder], bool] = lambda _: False, name: str = "second"
    ) -> Term:
        return acquire(
            self.storage,
            lambda number: holder(number, name),
            is_gone=dead,
            clock=lambda: self.now,
            sleep=self.sleep,
            take_over=take_over,
            report=self.said.append,
            home="home /srv/orders of pipeline 'orders'",
        )


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def held(storage: LocalStorage) -> Term:
    return Observer(storage).acquire(name="first")


def test_a_free_home_is_taken_at_once(storage: LocalStorage) -> None:
    observer = Observer(storage)
    term = observer.acquire(name="first")
    assert (term.number, observer.waited) == (1, 0)
    assert newest_holder(storage) == holder(1)
    assert observer.said == []


def test_a_living_holder_is_named_after_the_wait(storage: LocalStorage, held: Term) -> None:
    """A start waits a few seconds for a live holder's lease, then says who holds it."""
    observer = Observer(storage, meanwhile=held.renew)
    with pytest.raises(HomeInUse) as refused:
        observer.acquire()
    for named in (
        "home /srv/orders of pipeline 'orders' is in use by process 4711",
        "first-host",
        "since noon",
        "term 1",
        "--take-over",
    ):
        assert named in str(refused.value)
    assert WAIT_S <= observer.waited < WAIT_S + 1
    assert len(observer.said) == 1
    assert "4711 on first-host" in observer.said[0]
    held.require_current()


def test_a_holder_that_renews_just_in_time_keeps_the_home(storage: LocalStorage, held: Term) -> None:
    looks = itertools.count(1)
    almost = int((LEASE_S - 0.5) / POLL_S)
    observer = Observer(storage, meanwhile=lambda: held.renew() if next(looks) % almost == 0 else None)
    with pytest.raises(HomeInUse):
        observer.acquire()


def test_a_lease_that_stands_still_is_taken_over_after_a_while_of_the_observers_clock(
    storage: LocalStorage, held: Term
) -> None:
    held.renew()
    observer = Observer(storage)
    assert observer.acquire().number == 2
    assert LEASE_S <= observer.waited < LEASE_S + 1


def test_a_holder_that_dies_while_being_watched_is_taken_over(storage: LocalStorage, held: Term) -> None:
    beats = iter(range(10))
    observer = Observer(storage, meanwhile=lambda: held.renew() if next(beats, None) is not None else None)
    assert observer.acquire().number == 2
    assert LEASE_S + 1 <= observer.waited < LEASE_S + 2


def test_a_released_home_is_taken_at_once(storage: LocalStorage, held: Term) -> None:
    held.release()
    observer = Observer(storage)
    assert (observer.acquire().number, observer.waited) == (2, 0)
    assert observer.said == []


def test_a_home_released_during_the_wait_is_taken_then(storage: LocalStorage, held: Term) -> None:
    beats = iter(range(20))
    observer = Observer(storage, meanwhile=lambda: held.renew() if next(beats, None) is not None else held.release())
    assert observer.acquire().number == 2
    assert observer.waited == pytest.approx(21 * POLL_S)


def test_a_dead_process_of_this_machine_is_replaced_at_once(storage: LocalStorage, held: Term) -> None:
    observer = Observer(storage)
    assert observer.acquire(dead=lambda found: found == held.holder).number == 2
    assert observer.waited == 0


def test_taking_over_does_not_wait(storage: LocalStorage, held: Term) -> None:
    observer = Observer(storage, meanwhile=held.renew)
    assert observer.acquire(take_over=True).number == 2
    assert observer.waited == 0


def test_an_older_term_is_fenced_and_its_successor_named(storage: LocalStorage, held: Term) -> None:
    """C6: a woken zombie can neither commit nor write to the ledger."""
    held.require_current()
    second = Observer(storage).acquire(take_over=True)
    third = Observer(storage).acquire(take_over=True, name="third")
    for old in (held, second):
        old.renew()  # a zombie's lease harms nobody
        with pytest.raises(
            PipelineFenced, match=rf"'p' was taken over by .*third-host.*term 3.*holds term {old.number}"
        ):
            old.require_current()
    third.require_current()


def test_the_next_term_of_the_same_holder_is_for_one_step_and_nobody_elses(storage: LocalStorage, held: Term) -> None:
    """E5: what ends a pipeline happens in a term of its own."""
    following = held.following()
    assert (following.number, following.holder.term) == (held.number + 1, held.number + 1)
    assert newest_holder(storage) == following.holder
    with pytest.raises(PipelineFenced, match=f"this driver holds term {held.number} and stops"):
        held.following()


def test_of_starts_at_the_same_moment_exactly_one_wins(storage: LocalStorage) -> None:
    """Design 2: two drivers on one home."""
    for number in range(1, 6):
        race = Race(storage)
        race.run(starts=4)
        assert [term.number for term in race.won] == [number]
        assert len(race.lost) == 3
        race.won[0].require_current()
        race.won[0].release()


class Race:
    """Starts at the same moment, each in a thread of its own; the winner renews whenever a loser looks."""

    def __init__(self, storage: LocalStorage) -> None:
        self.storage = storage
        self.won: list[Term] = []
        self.lost: list[HomeInUse] = []
        self.decided, self.lock = threading.Event(), threading.Lock()

    def run(self, starts: int) -> None:
        barrier = threading.Barrier(starts)
        threads = [threading.Thread(target=self.contend, args=(barrier,)) for _ in range(starts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    def contend(self, barrier: threading.Barrier) -> None:
        barrier.wait(30)
        try:
            self.won.append(Observer(self.storage, meanwhile=self.renew).acquire())
            self.decided.set()
        except HomeInUse as error:
            self.lost.append(error)

    def renew(self) -> None:
        assert self.decided.wait(30), "somebody holds the term, but nobody won it"
        with self.lock:
            self.won[0].renew()


@pytest.mark.parametrize("torn", [b"", b"\0" * 60, b'{"format":1,"cou'])
def test_a_torn_lease_does_not_stop_a_start(storage: LocalStorage, held: Term, torn: bytes) -> None:
    """It is never synced, so a power cut may leave anything."""
    storage.replace("terms/000001.lease", torn)
    observer = Observer(storage)
    assert observer.acquire().number == 2
    assert observer.waited < LEASE_S + 1


def test_a_start_killed_before_its_first_renewal_is_taken_over(storage: LocalStorage) -> None:
    assert storage.claim("terms/000001.json", seal(holder(1)))
    assert Observer(storage).acquire().number == 2


def test_a_lease_of_a_newer_format_is_refused(storage: LocalStorage, held: Term) -> None:
    storage.replace("terms/000001.lease", seal(msgspec.structs.replace(Beat(count=3), format=2)))
    with pytest.raises(HomeMismatch, match="newer Onceward"):
        Observer(storage).acquire()


def test_a_damaged_claim_is_named(storage: LocalStorage, held: Term) -> None:
    storage.replace("terms/000001.json", b"{}")
    with pytest.raises(LedgerCorrupt, match=r"terms/000001.json is damaged"):
        Observer(storage).acquire()


def test_terms_remember_where_they_began(storage: LocalStorage, held: Term) -> None:
    held.begin(-1, (), {})
    Observer(storage).acquire(take_over=True)  # killed before its recovery was done
    Observer(storage).acquire(take_over=True).begin(41, (), {})
    assert boundaries(storage) == {1: -1, 3: 41}
    held.begin(-1, (), {})
    assert boundaries(storage) == {1: -1, 3: 41}


def test_a_claim_of_another_term_under_this_name_is_named(storage: LocalStorage, held: Term) -> None:
    """E9: believed, it would have a start claim a term that is taken, for ever."""
    Observer(storage).acquire(take_over=True)
    storage.replace("terms/000002.json", storage.read("terms/000001.json") or b"")
    with pytest.raises(LedgerCorrupt, match=r"terms/000002.json is of term 1: files were swapped"):
        Observer(storage).acquire(take_over=True)


def test_old_leases_go_and_claims_and_starts_stay(storage: LocalStorage) -> None:
    for _ in range(30):
        term = Observer(storage).acquire(take_over=True)
        term.begin(term.number, (), {})
        term.release()
    names = storage.names("terms")
    assert len([name for name in names if name.endswith(".lease")]) == 21
    assert len([name for name in names if name.endswith(".json")]) == 30
    assert len(boundaries(storage)) == 30


class TestRealProcesses:
    def test_this_process_is_not_dead(self) -> None:
        me = this_process("p", 1)
        assert me.pid == os.getpid()
        assert not is_gone(me)

    def test_an_ended_process_is_dead_and_its_pid_may_be_somebody_elses(self) -> None:
        with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
            other = msgspec.structs.replace(
                this_process("p", 1), pid=child.pid, process_start=processes.started(child.pid)
            )
            assert not is_gone(other)
            assert is_gone(msgspec.structs.replace(other, process_start="1"))
            child.kill()
        assert is_gone(other)

    def test_what_the_system_does_not_tell_is_no_proof(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Too many open files, or other users' processes are hidden: a living holder would be taken for gone."""
        monkeypatch.setattr(processes, "_stat", lambda _: [])
        assert not is_gone(this_process("p", 1))

        def refuses(pid: int, number: int) -> None:
            raise PermissionError(pid, number)

        monkeypatch.setattr(os, "kill", refuses)
        assert not is_gone(this_process("p", 1))

    @pytest.mark.parametrize("pid", [0, -1, -(2**40), 2**80])
    def test_a_number_that_is_no_processes_proves_nothing(self, pid: int) -> None:
        """J5: a forged file may hold any."""
        assert not is_gone(msgspec.structs.replace(this_process("p", 1), pid=pid))

    def test_a_process_of_another_machine_is_never_known_to_be_dead(self) -> None:
        elsewhere = msgspec.structs.replace(this_process("p", 1), machine="another", pid=2**22 + 1)
        assert not is_gone(elsewhere)
