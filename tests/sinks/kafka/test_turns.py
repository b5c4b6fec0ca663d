"""Tasks on one machine that take turns at a partition: real processes, real locks."""

import fcntl
import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final
from unittest import mock

import pytest

from onceward.epoch.outcome import TopicPartition
from onceward.sinks.kafka.encoding import Catalog, Topic
from onceward.sinks.kafka.turns import NUMBER, TurnLost, Turns, turns
from onceward.sinks.parcel import open_kept
from support.waiting import eventually

FORK: Final = multiprocessing.get_context("fork")
OUT: Final = [TopicPartition("out", number) for number in range(3)]
TIMES: Final = 200


@pytest.fixture
def shared() -> Iterator[Turns]:
    with turns(Catalog({"other": Topic(2, 1), "out": Topic(3, 1)})) as made:
        yield made


def take(shared: Turns, places: list[TopicPartition], times: int) -> None:
    for _ in range(times):
        with shared.at(places) as numbers:
            for place in places:
                numbers[place] += 1


def test_a_turn_begins_where_the_last_one_ended(shared: Turns) -> None:
    with shared.at(OUT[:2]) as numbers:
        assert numbers == dict.fromkeys(OUT[:2], 0)
        numbers[OUT[0]] = 17
    with shared.at(OUT) as numbers:
        assert numbers == {OUT[0]: 17, OUT[1]: 0, OUT[2]: 0}


def test_no_two_processes_have_the_turn_at_once_and_none_waits_for_ever(shared: Turns) -> None:
    """Each wants the partitions in another order; every number is handed out once."""
    orders = (OUT, OUT[::-1], [OUT[1], OUT[0]], [OUT[2]])
    workers = [FORK.Process(target=take, args=(shared, order, TIMES)) for order in orders]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * len(orders)
    with shared.at(OUT) as numbers:
        assert numbers == {OUT[0]: 3 * TIMES, OUT[1]: 3 * TIMES, OUT[2]: 3 * TIMES}


def hold(shared: Turns, held: Event, leave: Event) -> None:
    with shared.at(OUT[:1]) as numbers:
        held.set()
        assert leave.wait(60)
        numbers[OUT[0]] += 1


def ask(shared: Turns, asking: Event) -> None:
    lock = fcntl.lockf

    def told(*given: Any) -> None:
        asking.set()
        lock(*given)

    with mock.patch.object(fcntl, "lockf", told):
        take(shared, OUT[:1], 1)


def test_who_asks_while_another_has_the_turn_waits_for_it(shared: Turns) -> None:
    held, leave, asking = FORK.Event(), FORK.Event(), FORK.Event()
    first = FORK.Process(target=hold, args=(shared, held, leave))
    second = FORK.Process(target=ask, args=(shared, asking))
    first.start()
    assert held.wait(60)
    second.start()
    eventually(lambda: asking.is_set() or second.exitcode is not None, "that the second asks")
    leave.set()
    for worker in (first, second):
        worker.join(60)
    assert [first.exitcode, second.exitcode] == [0, 0]
    with shared.at(OUT[:1]) as numbers:
        assert numbers == {OUT[0]: 2}


def test_who_fails_in_a_turn_leaves_no_number_that_another_could_go_on_with(shared: Turns) -> None:
    """C1: equal sequences with other bytes are dropped silently, so nobody guesses."""
    with pytest.raises(ZeroDivisionError), shared.at(OUT[:1]):
        raise ZeroDivisionError
    with pytest.raises(TurnLost, match="out-0: another task failed while it had the turn"), shared.at(OUT):
        pass


def die(shared: Turns) -> None:
    with shared.at(OUT[:1]):
        os.kill(os.getpid(), signal.SIGKILL)


def test_who_is_killed_in_a_turn_leaves_none_either(shared: Turns) -> None:
    worker = FORK.Process(target=die, args=(shared,))
    worker.start()
    worker.join(60)
    with pytest.raises(TurnLost, match="another task failed"), shared.at(OUT[:1]):
        pass
    with shared.at(OUT[1:]) as numbers:
        assert set(numbers.values()) == {0}


def test_a_topic_that_was_not_known_when_the_job_began_has_no_turns(shared: Turns) -> None:
    with (
        pytest.raises(TurnLost, match="new-0 was not known when the epoch's job began"),
        shared.at([TopicPartition("new", 0)]),
    ):
        pass


def test_a_task_whose_job_is_over_writes_into_no_other_file_of_the_driver(tmp_path: Path) -> None:
    """J6: the driver's numbers were one of its open files, and that file's number may be another file's by now."""
    with turns(Catalog({"out": Topic(3, 1)})) as over:
        pass
    number = int(over.path.rpartition("/")[2])
    staged = tmp_path / "staged.csv"
    staged.write_bytes(NUMBER.pack(0) * 3)
    with staged.open("r+b") as file:
        assert file.fileno() == number  # the system gives the lowest number that is free
        with pytest.raises(TurnLost, match="its job is over"), over.at(OUT):
            pass
    assert staged.read_bytes() == NUMBER.pack(0) * 3


def open_late(path: str, name: str) -> None:
    with pytest.raises(FileNotFoundError, match="is something else by now"):
        open_kept(path, name, os.O_RDONLY)


def test_a_task_whose_job_is_over_does_not_wait_at_a_pipe(tmp_path: Path) -> None:
    """J6: opening one that nobody writes to waits for ever, and opening a device may do something."""
    with turns(Catalog({"out": Topic(3, 1)})) as over:
        pass
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert over.path == f"/proc/{os.getpid()}/fd/{reading}"
        worker = FORK.Process(target=open_late, args=(over.path, over.name))
        worker.start()
        worker.join(20)
        waits = worker.exitcode is None
        worker.kill()
        worker.join()
    finally:
        os.close(reading)
    assert not waits
    assert worker.exitcode == 0


def test_what_takes_the_place_of_a_jobs_numbers_between_two_looks_is_left_alone(
    shared: Turns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J6: and nothing stays open."""
    (tmp_path / "other").write_bytes(b"other")
    opened: list[int] = []
    real = os.open

    def swapped(_path: str, flags: int) -> int:
        opened.append(real(tmp_path / "other", flags))
        return opened[-1]

    monkeypatch.setattr(os, "open", swapped)
    with pytest.raises(FileNotFoundError, match="is something else by now"):
        open_kept(shared.path, shared.name, os.O_RDWR)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_a_task_of_an_earlier_try_takes_no_turn_of_a_later_one() -> None:
    with turns(Catalog({"out": Topic(3, 1)})) as earlier:
        pass
    with turns(Catalog({"out": Topic(3, 1)})) as later:
        assert later.path == earlier.path  # the same number in the table of open files
        with pytest.raises(TurnLost, match="its job is over"), earlier.at(OUT):
            pass
        with later.at(OUT) as numbers:
            assert set(numbers.values()) == {0}
